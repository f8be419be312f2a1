"""Builds and reads the objects of CSI snapshots. Pure.

A backup creates a VolumeSnapshot of a claim; the cluster's snapshot controller takes the snapshot and creates
a VolumeSnapshotContent for it. A restore binds a new VolumeSnapshot to the same snapshot, through a content
with its handle, and the claim is provisioned from it. (docs/spec: BKP 11, SRV 18)
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Self

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.resource_policies import VolumeRule
from pinnace.api.values.quantities import parse_quantity, size_quantity
from pinnace.api.values.times import known_time
from pinnace.api.velero.backup import Backup
from pinnace.api.volume_info import BackupMethod, BackupVolumeInfo, CSISnapshotInfo, PersistentVolumeInfo
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Coded

FEATURE: Final = "EnableCSI"
GROUP: Final = "snapshot.storage.k8s.io"
SNAPSHOTS: Final = f"volumesnapshots.{GROUP}"
CONTENTS: Final = f"volumesnapshotcontents.{GROUP}"
CLASSES: Final = f"volumesnapshotclasses.{GROUP}"

_VERSIONS: Final = ("v1", "v1beta1")
_DELETE: Final = "Delete"
_RETAIN: Final = "Retain"

_OF_THE_OLD_CLAIM: Final = (
    labels.PV_BIND_COMPLETED,
    labels.PV_BOUND_BY_CONTROLLER,
    labels.CLAIM_PROVISIONER,
    labels.CLAIM_PROVISIONER_BETA,
    labels.SELECTED_NODE,
)
"""Annotations of a claim about its old volume; all others are the user's. (docs/spec: SRV 18.2, defect c)"""

_OF_THE_BACKUP: Final = (labels.VOLUME_SNAPSHOT_NAME, labels.DATA_UPLOAD_NAME, labels.BACKUP_NAME)
"""Annotations of a stored claim that say what its backup saved, which is not true of a later backup."""

_NOTES: Final = frozenset(
    {
        labels.CSI_SNAPSHOT_HANDLE,
        labels.CSI_DRIVER_NAME,
        labels.CSI_DELETION_POLICY,
        labels.CSI_RESTORE_SIZE,
        labels.LATER_CSI_RESTORE_SIZE,
        f"{labels.CSI_NOTED_DELETION_SECRET}-namespace",
        f"{labels.CSI_NOTED_DELETION_SECRET}-name",
    }
)
"""The annotations of `annotate_snapshot`, and of later versions."""


UNSERVED: Final = (
    f"the feature {FEATURE} is on, but the cluster does not serve {SNAPSHOTS}: install the definitions and"
    " the controller of the CSI snapshotter, or switch the feature off"
)


class CSIError(Coded, Exception):
    """A snapshot cannot be taken, or a claim cannot be restored from one."""

    notice_code = Code.SNAPSHOT_NOT_TAKEN


class SnapshotKinds(msgspec.Struct, frozen=True, kw_only=True):
    """The three kinds in the version that a cluster serves."""

    snapshots: APIResource
    contents: APIResource
    classes: APIResource

    @classmethod
    def served(cls, discovery: Discovery) -> Self | None:
        """v1 if there is one, else v1beta1; None where the cluster has no snapshots. (docs/spec: SRV 18.1)"""
        for version in _VERSIONS:
            found = [discovery.served(name, version) for name in (SNAPSHOTS, CONTENTS, CLASSES)]
            snapshots, contents, classes = found
            if snapshots is not None and contents is not None and classes is not None:
                return cls(snapshots=snapshots, contents=contents, classes=classes)
        return None

    @classmethod
    def needed(cls, discovery: Discovery) -> Self:
        """Like `served`, but raises CSIError where the cluster has no snapshots."""
        if (found := cls.served(discovery)) is None:
            raise CSIError(UNSERVED)
        return found


def backup_selector(backup: str) -> str:
    """The label selector of a backup's snapshots and contents. (docs/spec: SRV 18.1)"""
    return f"{labels.BACKUP_NAME}={labels.label_value(backup)}"


def is_of_backup(obj: JSONObject, backup: str) -> bool:
    """Whether an object was made by that backup."""
    return labels_of(obj).get(labels.BACKUP_NAME) == labels.label_value(backup)


# --- Making a snapshot ----------------------------------------------------------------------------------


class ChosenClass(msgspec.Struct, frozen=True):
    """The class for a snapshot.

    Attributes:
        passed_over: why a class that an annotation names is not taken, one text for each.
    """

    name: str
    passed_over: Sequence[str] = ()


def choose_class(
    classes: Sequence[JSONObject], driver: str, named: Mapping[str, str] | None = None
) -> ChosenClass:
    """The class for a driver's snapshots: named, labelled for us, the default of the driver, or its only one.

    A name that does not fit is passed over: restored claims bring the names of another cluster's classes.

    Args:
        classes: in the order of a list.
        named: the result of `named_classes`.

    Raises:
        CSIError: there is none. (docs/spec: SRV 18.2, BEY 6.6)
    """
    drivers = {each["metadata"]["name"]: str(each.get("driver") or "") for each in classes}
    problems: list[str] = []
    for where, name in (named or {}).items():
        if drivers.get(name) == driver:
            return ChosenClass(name, problems)
        why = f"is of the driver {drivers[name]}, not {driver}" if name in drivers else "does not exist"
        problems.append(f"VolumeSnapshotClass {name}, which {where} names, {why}")
    try:
        found = _class_of_driver([each for each in classes if each.get("driver") == driver], driver)
    except CSIError as error:
        raise CSIError("; ".join([*problems, str(error)])) from error
    return ChosenClass(found["metadata"]["name"], problems)


def _class_of_driver(of_driver: Sequence[JSONObject], driver: str) -> JSONObject:
    labelled = [each for each in of_driver if labels.CSI_SNAPSHOT_CLASS in labels_of(each)]
    default = [each for each in of_driver if annotations_of(each).get(labels.CSI_DEFAULT_CLASS) == "true"]
    for candidates in (labelled, default, of_driver if len(of_driver) == 1 else []):
        if candidates:
            return candidates[0]
    if not of_driver:
        raise CSIError(f"there is no VolumeSnapshotClass of the driver {driver}: create one")
    names = ", ".join(each["metadata"]["name"] for each in of_driver)
    raise CSIError(
        f"there are several VolumeSnapshotClasses of the driver {driver} ({names}): put the label"
        f" {labels.CSI_SNAPSHOT_CLASS} on the class to use"
    )


def named_classes(
    claim: JSONObject, backup: Backup, driver: str, rule: VolumeRule | None = None
) -> dict[str, str]:
    """The classes that are named for a claim, by what names them; the first one that fits counts.

    Args:
        rule: of the resource policies, for the volume of the claim.
    """
    of_driver = f"{labels.CSI_SNAPSHOT_CLASS}_{driver.lower()}"
    found = [("an annotation of the claim", annotations_of(claim).get(labels.CSI_SNAPSHOT_CLASS, ""))]
    if rule is not None:
        found.append((f"the resource policies {rule.source}", rule.snapshot_class))
    found.append(("an annotation of the backup", backup.metadata.annotations.get(of_driver, "")))
    return {where: name for where, name in found if name}


def new_snapshot(kinds: SnapshotKinds, claim: JSONObject, backup: Backup, snapshot_class: str) -> JSONObject:
    """The VolumeSnapshot to create for a claim; its name is still to be generated."""
    name = claim["metadata"]["name"]
    own_labels = {labels.BACKUP_NAME: labels.label_value(backup.metadata.name)}
    if backup.spec.snapshot_move_data:
        # It is gone when the backup is complete; restored, it would name a snapshot that does not exist.
        own_labels[labels.EXCLUDE_FROM_BACKUP] = labels.EXCLUDE_FROM_BACKUP_VALUE
    return {
        "apiVersion": kinds.snapshots.api_version,
        "kind": kinds.snapshots.kind,
        "metadata": {
            "generateName": f"velero-{name}-",
            "namespace": claim["metadata"]["namespace"],
            "labels": own_labels,
        },
        "spec": {
            "source": {"persistentVolumeClaimName": name},
            "volumeSnapshotClassName": snapshot_class,
        },
    }


def annotate_claim(claim: JSONObject, snapshot: str, backup: str) -> None:
    """Annotate the stored claim, in place, with its snapshot. (docs/spec: SRV 18.2)"""
    notes = {labels.VOLUME_SNAPSHOT_NAME: snapshot, labels.BACKUP_NAME: backup}
    metadata = claim["metadata"]
    metadata["annotations"] = {**annotations_of(claim), **notes}
    short = {name: labels.label_value(value) for name, value in notes.items()}
    metadata["labels"] = {**labels_of(claim), **short}


def forget_snapshot(claim: JSONObject) -> None:
    """Remove, in place, what an earlier backup noted on a claim, as a restore would trust it.

    The label with the backup's name stays: a restore puts it on every object.
    """
    annotations, own_labels = mapping(claim, "metadata", "annotations"), mapping(claim, "metadata", "labels")
    for name in _OF_THE_BACKUP:
        annotations.pop(name, None)
    own_labels.pop(labels.VOLUME_SNAPSHOT_NAME, None)


def remove_annotations(snapshot: JSONObject) -> None:
    """Remove, in place, annotations that a user wrote: a restore would trust them.

    Otherwise any user who may create a VolumeSnapshot could name any snapshot in storage. (NAC 17 A35)
    """
    kept = {name: value for name, value in annotations_of(snapshot).items() if name not in _NOTES}
    if len(kept) != len(annotations_of(snapshot)):
        snapshot["metadata"]["annotations"] = kept


def annotate_snapshot(snapshot: JSONObject, content: JSONObject) -> None:
    """Annotate the stored VolumeSnapshot, in place, with all that a restore needs. (docs/spec: SRV 18.2)"""
    spec, status = content.get("spec") or {}, content.get("status") or {}
    notes = {labels.CSI_DELETION_POLICY: spec.get("deletionPolicy") or ""}
    if handle := status.get("snapshotHandle"):
        notes[labels.CSI_SNAPSHOT_HANDLE] = handle
        notes[labels.CSI_DRIVER_NAME] = spec.get("driver") or ""
    size_bytes = status.get("restoreSize")
    if size_bytes is not None:
        size = size_quantity(int(size_bytes))
        # The plugin of Velero before 1.14 reads the first name, Velero itself the second.
        notes |= {labels.CSI_RESTORE_SIZE: size, labels.LATER_CSI_RESTORE_SIZE: size}
    if secret := secret_named_by(content, labels.CSI_DELETION_SECRET):
        notes |= _naming(labels.CSI_NOTED_DELETION_SECRET, secret)
    snapshot["metadata"]["annotations"] = {**annotations_of(snapshot), **notes}


def bound_content(snapshot: JSONObject) -> str:
    """The name of a VolumeSnapshot's content; empty while it has none."""
    return str((snapshot.get("status") or {}).get("boundVolumeSnapshotContentName") or "")


def handle_of(content: JSONObject) -> str:
    """The storage system's handle of the snapshot; empty while there is none."""
    status, source = content.get("status") or {}, (content.get("spec") or {}).get("source") or {}
    return str(status.get("snapshotHandle") or source.get("snapshotHandle") or "")


def manager_label(content: JSONObject) -> dict[str, str]:
    """The label of a content that only the csi-snapshotter of one node looks after; empty for all others.

    Every further content of the same snapshot needs it, or no csi-snapshotter would take it up.
    """
    node = text(content, "metadata", "labels", labels.CSI_MANAGED_BY)
    return {labels.CSI_MANAGED_BY: node} if node else {}


def secret_named_by(obj: JSONObject, prefix: str) -> tuple[str, str] | None:
    """Namespace and name of the Secret that two annotations of this prefix name; None unless both do."""
    notes = annotations_of(obj)
    namespace, name = notes.get(f"{prefix}-namespace"), notes.get(f"{prefix}-name")
    return (namespace, name) if namespace and name else None


# --- Restoring from one ---------------------------------------------------------------------------------


def snapshot_of_claim(claim: JSONObject, backup: str) -> str:
    """The snapshot that a backup made of a stored claim; empty if it made none.

    A claim that was restored from a snapshot keeps its old annotations, which name another backup. Later
    versions overwrite the labels only, and leave older annotations beside them. (BEY 6.6)
    """
    notes, marks = annotations_of(claim), labels_of(claim)
    noted, marked = notes.get(labels.BACKUP_NAME), marks.get(labels.BACKUP_NAME)
    by_note, by_mark = notes.get(labels.VOLUME_SNAPSHOT_NAME), marks.get(labels.VOLUME_SNAPSHOT_NAME)
    is_marked = marked in (backup, labels.label_value(backup))
    if noted == backup or (noted is None and (is_marked or marked is None)):
        return by_note or by_mark or ""
    return by_mark or by_note or "" if is_marked else ""


def source_snapshot(claim: JSONObject) -> str:
    """The VolumeSnapshot that a claim is made of; empty if it is made of none."""
    sources = (mapping(claim, "spec", key) for key in ("dataSource", "dataSourceRef"))
    return next((text(each, "name") for each in sources if each.get("kind") == "VolumeSnapshot"), "")


def is_size(found: object) -> bool:
    """Whether a size was reported: drivers need not, and some report 0 then."""
    try:
        return found is not None and parse_quantity(str(found)) > 0
    except ValueError:
        return True  # whoever uses it says what is wrong


def size_of_claim(claim: JSONObject) -> str:
    """The size of a claim's volume, often larger than asked for; before it has one, what it asks for."""
    found = text(claim, "status", "capacity", "storage")
    return found or text(claim, "spec", "resources", "requests", "storage")


def provision_from(claim: JSONObject, snapshot: JSONObject, *, size_of_volume: str = "") -> None:
    """Let a claim be provisioned from a VolumeSnapshot, in place. (docs/spec: SRV 18.2, SRV-024)

    Args:
        size_of_volume: of the volume in the backup, for a snapshot whose size was not reported.

    Raises:
        CSIError: the size of the snapshot or the claim is not valid.
    """
    old = {*_OF_THE_OLD_CLAIM, *_OF_THE_BACKUP}
    kept = {name: value for name, value in annotations_of(claim).items() if name not in old}
    claim["metadata"]["annotations"] = kept
    spec = claim["spec"]
    notes = annotations_of(snapshot)
    sizes = (notes.get(labels.CSI_RESTORE_SIZE), notes.get(labels.LATER_CSI_RESTORE_SIZE), size_of_volume)
    if size := next((each for each in sizes if each and is_size(each)), ""):
        _raise_request(spec, size)
    spec.pop("volumeName", None)
    # It chose the static volume of the old claim; no provisioner makes a volume for a claim that has one.
    spec.pop("selector", None)
    # The server fills it in from dataSource, and refuses two that differ.
    spec.pop("dataSourceRef", None)
    name = snapshot["metadata"]["name"]
    spec["dataSource"] = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": name}


def _raise_request(spec: JSONObject, size: str) -> None:
    resources = spec.get("resources") or {}
    requests = resources.get("requests") or {}
    wanted = requests.get("storage")
    try:
        is_too_small = wanted is None or parse_quantity(str(wanted)) < parse_quantity(size)
    except ValueError as error:
        raise CSIError(
            f"cannot compare the snapshot's size {size} with the request {wanted}: {error}"
        ) from error
    if is_too_small:
        spec["resources"] = {**resources, "requests": {**requests, "storage": size}}


def static_content(
    kinds: SnapshotKinds, snapshot: JSONObject, namespace: str, content_labels: Mapping[str, str]
) -> JSONObject:
    """A content that binds a stored VolumeSnapshot to its snapshot; its name is still to be generated.

    Args:
        snapshot: as the backup has it, with the annotations of `annotate_snapshot`.
        namespace: the namespace of the VolumeSnapshot.

    Raises:
        CSIError: the annotations are missing. (docs/spec: SRV-025)
    """
    name, notes = snapshot["metadata"]["name"], annotations_of(snapshot)
    for annotation in (labels.CSI_SNAPSHOT_HANDLE, labels.CSI_DRIVER_NAME):
        if not notes.get(annotation):
            raise CSIError(f"VolumeSnapshot {namespace}/{name} does not have the annotation {annotation}")
    metadata: JSONObject = {"generateName": f"velero-{name}-", "labels": dict(content_labels)}
    if secret := secret_named_by(snapshot, labels.CSI_NOTED_DELETION_SECRET):
        metadata["annotations"] = _naming(labels.CSI_DELETION_SECRET, secret)
    return {
        "apiVersion": kinds.contents.api_version,
        "kind": kinds.contents.kind,
        "metadata": metadata,
        "spec": {
            # Always Retain: deleting the restored namespace must not delete the backup's snapshot.
            "deletionPolicy": _RETAIN,
            "driver": notes[labels.CSI_DRIVER_NAME],
            "source": {"snapshotHandle": notes[labels.CSI_SNAPSHOT_HANDLE]},
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": namespace, "name": name},
        },
    }


def synced_content(kinds: SnapshotKinds, stored: JSONObject, backup: str) -> JSONObject:
    """The content to create in another cluster for one that a location holds. (docs/spec: SRV 18.1, CTL 7)

    It names the snapshot by its handle, so that no new one is taken, and no uid of another cluster, as the
    snapshot controller would delete it for that.

    Raises:
        CSIError: it is not a content, or does not name its snapshot.
    """
    metadata, spec = stored.get("metadata"), stored.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise CSIError("not a VolumeSnapshotContent")
    name, reference, handle = metadata.get("name"), spec.get("volumeSnapshotRef"), handle_of(stored)
    if not isinstance(name, str) or not name or not isinstance(reference, dict) or not handle:
        raise CSIError("the VolumeSnapshotContent lacks its name, its snapshot or its handle")
    body: JSONObject = {
        "apiVersion": kinds.contents.api_version,
        "kind": kinds.contents.kind,
        "metadata": {
            "name": name,
            "labels": {labels.BACKUP_NAME: labels.label_value(backup), **manager_label(stored)},
        },
        "spec": {
            key: spec[key]
            for key in ("deletionPolicy", "driver", "sourceVolumeMode", "volumeSnapshotClassName")
            if key in spec
        },
    }
    if secret := secret_named_by(stored, labels.CSI_DELETION_SECRET):
        body["metadata"]["annotations"] = _naming(labels.CSI_DELETION_SECRET, secret)
    members = ("kind", "namespace", "name")
    body["spec"] |= {
        "source": {"snapshotHandle": handle},
        "volumeSnapshotRef": {key: reference[key] for key in members if key in reference},
    }
    return body


def _naming(prefix: str, secret: tuple[str, str]) -> dict[str, str]:
    namespace, name = secret
    return {f"{prefix}-namespace": namespace, f"{prefix}-name": name}


# --- Deleting one ---------------------------------------------------------------------------------------

DELETE_WITH_OBJECT: Final[JSONObject] = {"spec": {"deletionPolicy": _DELETE}}
"""The patch of a content whose snapshot is to be deleted with it. (docs/spec: CTL 6.5)"""

LET_GO: Final[JSONObject] = {"metadata": {"annotations": {labels.CSI_BEING_DELETED: "yes"}}}
"""The patch of a content that is about to be deleted, with its snapshot or without.

The snapshot controller annotates a content when it sees that its VolumeSnapshot is being deleted. It does not
see one that is deleted before the controller has put its finalizers there, and then no csi-snapshotter would
ever finish the deletion of the content.
"""

KEEP_WITHOUT_OBJECT: Final[JSONObject] = {"spec": {"deletionPolicy": _RETAIN}}
"""The patch of a content whose snapshot is kept when the content, or its namespace, is deleted. (ADR 022)"""


def csi_volume_info(
    snapshot: JSONObject, content: JSONObject, claim: str, volume: JSONObject
) -> BackupVolumeInfo:
    """The record of a volume with a CSI snapshot, for the backup's files. (docs/spec: BEY 3.6)"""
    spec, status = content.get("spec") or {}, content.get("status") or {}
    of_volume, metadata = volume.get("spec") or {}, volume.get("metadata") or {}
    return BackupVolumeInfo(
        pvc_name=claim,
        pvc_namespace=snapshot["metadata"]["namespace"],
        pv_name=metadata.get("name") or "",
        backup_method=BackupMethod.CSI_SNAPSHOT,
        preserve_local_snapshot=True,
        result="succeeded",
        start_timestamp=_time(snapshot["metadata"].get("creationTimestamp")),
        csi_snapshot_info=CSISnapshotInfo(
            snapshot_handle=handle_of(content),
            size=int(status.get("restoreSize") or 0),
            driver=spec.get("driver") or "",
            vsc_name=content["metadata"]["name"],
            ready_to_use=bool(status.get("readyToUse")),
        ),
        pv_info=PersistentVolumeInfo(
            reclaim_policy=of_volume.get("persistentVolumeReclaimPolicy") or "",
            labels=dict(metadata.get("labels") or {}),
        ),
    )


def _time(text: str | None) -> datetime | None:
    return known_time(text)


def labels_of(obj: JSONObject) -> dict[str, str]:
    """`metadata.labels`, empty if there are none."""
    return (obj.get("metadata") or {}).get("labels") or {}


def annotations_of(obj: JSONObject) -> dict[str, str]:
    """`metadata.annotations`, empty if there are none."""
    return (obj.get("metadata") or {}).get("annotations") or {}
