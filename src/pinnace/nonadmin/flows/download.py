"""What to do next with a NonAdminDownloadRequest. Pure. (docs/spec: NAC 13)

    expired ──> delete it          answered ──> wait for that
    else ─> whose file is it ─> DownloadRequest ─> copy its answer

Signed URLs lead only into the tenant's own locations: where a backup really lies decides, not what a request
says that the tenant can edit. (A23)
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pinnace.api.download_request import OF_RESTORES
from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.nonadmin.names import COMMON_LABELS, Origin
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.times import parse_time
from pinnace.kube.resources import velero
from pinnace.nonadmin.flows.conditions import Observation, condition, with_condition
from pinnace.nonadmin.flows.steps import (
    DONE,
    Create,
    Delete,
    Finish,
    PassMemory,
    Step,
    WriteStatus,
)
from pinnace.nonadmin.identity import is_own_backup, origin_key, tenant_of_location
from pinnace.nonadmin.objects import (
    NADRS,
    is_being_deleted,
    velero_body,
)
from pinnace.runtime.keys import Key

DOWNLOADS: Final = velero("downloadrequests")
UNKNOWN_EXPIRY_SECONDS: Final = 600.0

FIRST_LOOK_SECONDS: Final = 2.0
"""For a Backup or Restore that is about to be made."""

FIRST_RETRY_SECONDS: Final = 30.0
LONGEST_RETRY_SECONDS: Final = 3600.0
"""For a request that names nothing. What it names wakes it when it is made."""


_NOT_USED: Final = "NonAdminBackupStorageLocationNotUsed"
_MESSAGES: Final = {
    _NOT_USED: "backup does not use nonadminbackupstoragelocation, recreate nadr to process",
    "NonAdminBackupNotAvailable": "cannot get nonadminbackup",
    "NonAdminRestoreNotAvailable": "cannot get nonadminrestore",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadWorld:
    """What is known beside a NonAdminDownloadRequest.

    Attributes:
        namespace: the server's.
        nar, restore: the NonAdminRestore that it names, if it is about one, and that one's Restore.
        nab, backup: the NonAdminBackup that it is about, and that one's Backup.
        backup_location: the BackupStorageLocation that holds that Backup.
        download: the DownloadRequest that was made for it.
    """

    namespace: str
    now: datetime
    nar: JSONObject | None = None
    restore: JSONObject | None = None
    nab: JSONObject | None = None
    backup: JSONObject | None = None
    backup_location: JSONObject | None = None
    download: JSONObject | None = None


def download_name(nadr: JSONObject) -> str:
    """The name of the DownloadRequest of a request."""
    return f"nadr-{text(nadr, 'metadata', 'uid')}"


def is_about_restore(nadr: JSONObject) -> bool:
    """Whether the file belongs to a restore."""
    return text(nadr, "spec", "target", "kind") in OF_RESTORES


def next_download_step(nadr: JSONObject, world: DownloadWorld, memory: PassMemory) -> Step:
    """The next thing to do; the same for the same object and world, however often it is asked."""
    if is_being_deleted(nadr) or not text(nadr, "spec", "target", "kind"):
        return DONE
    answer = mapping(nadr, "status", "velero", "status")
    expires = _seconds_left(answer, world.now)
    if expires is not None and expires < 0:
        gone = text(nadr, "metadata", "uid") in memory.deleted
        return DONE if gone else Delete(resource=NADRS, obj=nadr)
    if text(answer, "downloadURL"):
        return Finish(after_seconds=UNKNOWN_EXPIRY_SECONDS if expires is None else expires + 1.0)
    if condition(mapping(nadr, "status"), _NOT_USED):
        return Finish(refusal=_MESSAGES[_NOT_USED])
    if world.download is not None:
        return _answered(nadr, world.download, world)
    return _asked(nadr, world)


def _answered(nadr: JSONObject, download: JSONObject, world: DownloadWorld) -> Step:
    answer = mapping(download, "status")
    expires = _seconds_left(answer, world.now)
    if origin_key(download, Origin.DOWNLOAD) != Key.of(nadr):
        return Finish(refusal="the DownloadRequest of this name belongs to another request")
    if text(answer, "phase") != "Processed" or not text(answer, "downloadURL"):
        return DONE
    if expires is not None and expires < 0:
        return DONE
    seen = Observation(type="Processed", holds=True, reason="Success", message="")
    status = {
        "phase": str(NonAdminPhase.CREATED),
        "conditions": mapping(with_condition({}, seen, world.now))["conditions"],
        "velero": {"status": answer},
    }
    return WriteStatus(status=status)


def _asked(nadr: JSONObject, world: DownloadWorld) -> Step:
    about_restore = is_about_restore(nadr)
    if about_restore and world.nar is None:
        return _unavailable(nadr, "NonAdminRestoreNotAvailable", world)
    if world.nab is None:
        return _unavailable(nadr, "NonAdminBackupNotAvailable", world)
    if not text(world.nab, "spec", "backupSpec", "storageLocation"):
        return _not_used(nadr, world)
    if world.backup is None or (about_restore and world.restore is None):
        # Later each time: it may never come, and there may be any number of such requests.
        return Finish(after_seconds=_patience(nadr, world.now, FIRST_LOOK_SECONDS))
    if not is_own_backup(world.backup, world.backup_location, Key.of(world.nab)):
        return _unavailable(nadr, "NonAdminBackupNotAvailable", world)
    if tenant_of_location(world.backup_location) != text(nadr, "metadata", "namespace"):
        return _not_used(nadr, world)
    target = world.backup
    if about_restore and world.restore is not None and world.nar is not None:
        target = world.restore
        if origin_key(target, Origin.RESTORE) != Key.of(world.nar):
            return _unavailable(nadr, "NonAdminRestoreNotAvailable", world)
    return Create(
        resource=DOWNLOADS,
        namespace=world.namespace,
        body=_download(nadr, text(target, "metadata", "name"), world),
    )


def _download(nadr: JSONObject, target: str, world: DownloadWorld) -> JSONObject:
    key = Key.of(nadr)
    metadata = {
        "name": download_name(nadr),
        "namespace": world.namespace,
        "labels": {**COMMON_LABELS, Origin.DOWNLOAD.id_label: text(nadr, "metadata", "uid")},
        "annotations": {
            Origin.DOWNLOAD.name_annotation: key.name,
            Origin.DOWNLOAD.namespace_annotation: key.namespace,
        },
    }
    kind = text(nadr, "spec", "target", "kind")
    return velero_body(DOWNLOADS, metadata, {"target": {"kind": kind, "name": target}})


def _unavailable(nadr: JSONObject, kind: str, world: DownloadWorld) -> Step:
    wait_seconds = _patience(nadr, world.now, FIRST_RETRY_SECONDS)
    last = Finish(refusal=_MESSAGES[kind], after_seconds=wait_seconds)
    status = _refused(nadr, kind, world)
    return last if status == mapping(nadr, "status") else WriteStatus(status=status, last=last)


def _patience(nadr: JSONObject, now: datetime, first_seconds: float) -> float:
    """How long to wait before the next look: as long as the request has been there so far."""
    try:
        age = (now - parse_time(text(nadr, "metadata", "creationTimestamp"))).total_seconds()
    except ValueError:
        age = 0.0
    return min(max(age, first_seconds), LONGEST_RETRY_SECONDS)


def _not_used(nadr: JSONObject, world: DownloadWorld) -> Step:
    return WriteStatus(status=_refused(nadr, _NOT_USED, world))


def _refused(nadr: JSONObject, kind: str, world: DownloadWorld) -> JSONObject:
    """The status with that condition and no other."""
    status = mapping(nadr, "status")
    former = condition(status, kind)
    only = {"conditions": [former]} if former else {}
    seen = Observation(type=kind, holds=True, reason="Error", message=_MESSAGES[kind])
    conditions = with_condition(only, seen, world.now)["conditions"]
    return {**status, "phase": str(NonAdminPhase.BACKING_OFF), "conditions": conditions}


def _seconds_left(answer: JSONObject, now: datetime) -> float | None:
    """Until a URL expires; None if it does not say."""
    try:
        return (parse_time(text(answer, "expiration")) - now).total_seconds()
    except ValueError:
        return None
