"""Makes cluster objects of the backups that a location holds. Pure.

Anyone with write access to a bucket can write these files, so nothing in them may start work, reach into
another backup or another namespace, or take the name of another object: only objects in a final phase pass, a
backup's name is that of its directory, and namespace, location, owner and the labels that tie objects
together are set here, and hooks, which run commands in pods, are taken out. All other fields of an object,
those of later versions included, are kept. (docs/spec: CTL 7, STO 17, NAC A33-A34, BEY 7.5, AFT 7.4)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from pinnace.api import API_VERSION, GROUP, labels, phases
from pinnace.api.codec import DecodeError, decode, encode
from pinnace.api.labels import SIZE_BYTES
from pinnace.api.meta import ObjectMeta, OwnerReference
from pinnace.api.nonadmin.names import COMMON_LABELS, Origin, is_object_name, is_unique_id
from pinnace.api.objects import JSONObject
from pinnace.api.values.digits import is_digits
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import is_ahead
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.api.velero.pod_volume import PodVolumeBackup
from pinnace.api.velero.storage_location import BackupStorageLocation

_SOURCE_CLUSTER: Final = "velero.io/source-cluster-"
"""Annotations with the version of the cluster that was backed up."""

DEFAULT_PERIOD: Final = Duration.minutes(1)
MAX_OBJECT_BYTES: Final = 3 << 19
"""1.5 MiB: the largest object that etcd takes, so that no request with a larger one is made."""

MAX_POD_VOLUME_BACKUPS: Final = 10_000
"""The most of one backup; far above any honest number, and bearable for an API server."""

ScheduleUID = Callable[[str], str | None]
"""The uid of the Schedule of that name in the cluster, None if there is none."""


class NotSynced(Exception):
    """An object of a location is not made known; the text says why and holds no value of it."""


class Unfinished(NotSynced):
    """A backup has not ended. Time may end it, without a change of its file."""


def effective_period(own: Duration | None, server: Duration) -> Duration | None:
    """How often a location is synced; None for never. (docs/spec: CTL 7, STO 17)"""
    if own is not None and own == Duration():
        return None
    if own is None or own < Duration():
        return server if server > Duration() else DEFAULT_PERIOD
    return own


def is_due(last_synced: datetime | None, period: Duration | None, now: datetime) -> bool:
    """Whether a location is synced now."""
    if period is None:
        return False
    # A last time in the future is nobody's: it must not end all syncs. As a difference: a period of
    # centuries, added to a date, would leave the calendar.
    if last_synced is None or is_ahead(last_synced, now):
        return True
    return abs(now - last_synced) >= period.to_timedelta()


def in_order(locations: Iterable[BackupStorageLocation], default: str) -> Sequence[BackupStorageLocation]:
    """Default location first, so that it wins where two hold backups of one name; then by name."""
    return sorted(locations, key=lambda each: (each.metadata.name != default, each.metadata.name))


def is_found_in_location(backup: Backup) -> bool:
    """Whether a Backup was made known from a location: its object is younger than its end."""
    created, completed = backup.metadata.creation_timestamp, backup.status.completion_timestamp
    if backup.status.phase not in phases.ENDED or created is None:
        return False
    return completed is None or created > completed


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedLocation:
    """The location whose backups are made known.

    Attributes:
        name: of the BackupStorageLocation.
        namespace: the server's; the Backups are created there.
        schedule_uid: returns the uid of the Schedule of that name in the cluster, if there is one.
        tenant: the namespace that the location belongs to; empty for the administrator's.
    """

    name: str
    namespace: str
    schedule_uid: ScheduleUID
    tenant: str = ""


def backup_object(data: bytes, *, name: str, found_in: SyncedLocation, now: datetime) -> bytes:
    """The Backup to create for a stored `velero-backup.json`.

    Args:
        data: the file.
        name: of its directory.

    Raises:
        NotSynced: it is no Backup, has not ended, is too large, or is not of that tenant.
    """
    tenant = found_in.tenant
    if not is_object_name(name):
        raise NotSynced("its directory has a name that no object can have")
    if tenant and not is_unique_id(name, tenant):
        # Otherwise a tenant could take the name of a Schedule's next backup.
        raise NotSynced("its name is none that self-service gives to backups of the location's namespace")
    raw = _parsed(data)
    try:
        backup = decode(Backup, raw, require_kind=True)
    except DecodeError as error:
        raise NotSynced(str(error)) from error
    if tenant and not _is_of_tenant(backup, name, tenant):
        raise NotSynced("it says that it is of another namespace than the one that owns the location")
    stored = _of_self_service(backup.metadata) if tenant else backup.metadata
    location_label = {labels.STORAGE_LOCATION: labels.label_value(found_in.name)}
    metadata = _metadata(stored, name, found_in.namespace, location_label)
    owners = [owner for owner in stored.owner_references if _is_kept(owner, found_in.schedule_uid)]
    if owners:
        metadata["ownerReferences"] = [encode(owner) for owner in owners]
    return _body(
        {
            **raw,
            "metadata": metadata,
            "spec": {**_without_hooks(raw.get("spec") or {}), "storageLocation": found_in.name},
            "status": {**(raw.get("status") or {}), "phase": _synced_phase(backup.status, now)},
        }
    )


def pod_volume_backup_object(
    raw: JSONObject, *, backup: str, backup_uid: str, location: str, namespace: str, tenant: str = ""
) -> tuple[str, bytes]:
    """Name and body of the PodVolumeBackup to create for one that is stored with a backup.

    Args:
        backup, backup_uid: the Backup that has just been made known; its only owner.
        tenant: the namespace that the location belongs to, empty for the administrator's.

    Raises:
        NotSynced: it is no PodVolumeBackup, has not ended, has no name, is too large, or belongs to another
            tenant.
    """
    try:
        stored = decode(PodVolumeBackup, raw)
    except DecodeError as error:
        raise NotSynced(str(error)) from error
    if stored.status.phase not in phases.TRANSFER_STORED:
        raise NotSynced("the pod volume backup has not ended")
    if not (name := stored.metadata.name):
        raise NotSynced("the pod volume backup has no name")
    if tenant and stored.spec.pod.namespace != tenant:
        raise NotSynced("the pod volume backup is of a pod of another namespace")
    backup_labels = {labels.BACKUP_NAME: labels.label_value(backup), labels.BACKUP_UID: backup_uid}
    metadata = _metadata(stored.metadata, name, namespace, backup_labels)
    owner = {"apiVersion": API_VERSION, "kind": "Backup", "name": backup, "uid": backup_uid}
    metadata["ownerReferences"] = [{**owner, "controller": True}]
    spec = {**(raw.get("spec") or {}), "backupStorageLocation": location}
    kind = {"apiVersion": API_VERSION, "kind": "PodVolumeBackup"}
    return name, _body({**raw, **kind, "metadata": metadata, "spec": spec})


def _of_self_service(stored: ObjectMeta) -> ObjectMeta:
    """The metadata that self-service writes on a Backup, without any that other programs act on.

    A label with a schedule's name would make it the newest of the administrator's, an owner reference would
    have it collected.
    """
    known_labels = {*COMMON_LABELS, Origin.BACKUP.id_label}
    known_notes = {Origin.BACKUP.name_annotation, Origin.BACKUP.namespace_annotation}
    return ObjectMeta(
        name=stored.name,
        labels={name: value for name, value in stored.labels.items() if name in known_labels},
        annotations={
            name: value
            for name, value in stored.annotations.items()
            if name in known_notes
            or name.startswith(_SOURCE_CLUSTER)
            or (name == SIZE_BYTES and is_digits(value))
        },
    )


def _is_of_tenant(backup: Backup, name: str, tenant: str) -> bool:
    """Whether a Backup in a tenant's location was made for that tenant by self-service. (NAC A14)"""
    own_labels, notes = backup.metadata.labels, backup.metadata.annotations
    return (
        own_labels.get(Origin.BACKUP.id_label) == name
        and notes.get(Origin.BACKUP.namespace_annotation) == tenant
        and is_object_name(notes.get(Origin.BACKUP.name_annotation, ""))
        and backup.spec.included_namespaces == [tenant]
    )


def _without_hooks(spec: JSONObject) -> JSONObject:
    """The spec without hooks, so that a copy of the Backup runs no command of a stranger."""
    return {name: {} if name == "hooks" else value for name, value in spec.items()}


def _synced_phase(status: BackupStatus, now: datetime) -> str:
    if status.phase in phases.ENDED:
        return str(status.phase)
    expired = status.expiration is not None and status.expiration <= now
    if status.phase in phases.UNFINISHED and expired:
        return phases.CUT_SHORT.value
    raise Unfinished("the backup has not ended")


def _is_kept(owner: OwnerReference, schedule_uid: ScheduleUID) -> bool:
    """A Schedule that is not here would let the cluster collect the Backup at once. (docs/spec: BEY 7.5)"""
    is_schedule = owner.kind == "Schedule" and owner.api_version.split("/")[0] == GROUP
    return not is_schedule or schedule_uid(owner.name) == owner.uid


def _metadata(stored: ObjectMeta, name: str, namespace: str, added: dict[str, str]) -> dict[str, Any]:
    """Labels and annotations only: the rest, finalizers included, is about another cluster."""
    metadata = {"name": name, "namespace": namespace, "labels": {**stored.labels, **added}}
    return {**metadata, "annotations": stored.annotations} if stored.annotations else metadata


def _parsed(data: bytes) -> JSONObject:
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise NotSynced(f"not valid JSON: {error.msg}") from None
    if not isinstance(raw, dict):
        raise NotSynced("not a JSON object")
    return raw


def _body(obj: JSONObject) -> bytes:
    try:
        body = orjson.dumps(obj)
    except orjson.JSONEncodeError as error:
        raise NotSynced(f"cannot be written as JSON again: {error}") from None
    if len(body) > MAX_OBJECT_BYTES:
        raise NotSynced(f"larger than {MAX_OBJECT_BYTES} bytes, which no cluster stores")
    return body
