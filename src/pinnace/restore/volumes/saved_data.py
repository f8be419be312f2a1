"""Volume data that is in a backup but cannot be restored. (docs/adr/020, docs/spec: BEY 11.1)

A claim restored with a new, empty disk would look healthy, and the application would initialise itself on it.
Therefore each such volume is an error; its claim is created so that nothing binds it, and pods that
would start without the data are left out. With `pinnace.io/without-volume-data` on the Restore, they are
created with empty volumes and each is a warning.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec
import orjson

from pinnace.api import labels
from pinnace.api.kinds import DATA_UPLOADS, PODS
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import TransferPhase
from pinnace.api.pod_volume_catalogue import UPLOADERS, PodVolumeCatalogue, uploader_of
from pinnace.api.velero.pod_volume import RESTIC, PodVolumeBackup
from pinnace.api.velero.restore import Restore
from pinnace.api.volume_info import BackupMethod, BackupVolumeInfo, moved_claims
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex
from pinnace.csi.movement.objects import MovedVolume
from pinnace.csi.movement.stored import NotMoved, ReadItem, moved_volumes
from pinnace.csi.restore import note_manager
from pinnace.csi.snapshots import (
    CONTENTS,
    SNAPSHOTS,
    bound_content,
    forget_snapshot,
    snapshot_of_claim,
    source_snapshot,
)
from pinnace.restore.metadata import clear_binding_info
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.restore.volumes.moved_data import wait_for_data
from pinnace.volumes.pods.pod_claims import claim_name, find_volume

Claim = tuple[str, str]
"""Namespace in the backup, and name."""

_DATA_UPLOADS: Final = DATA_UPLOADS.group_resource
_SOURCES: Final = ("dataSource", "dataSourceRef")
_WITH_VELERO: Final = "restore it with Velero"
_WITH_NODE_AGENTS: Final = (
    "restore it with a server that has node agents (`pinnace install`, with --use-node-agent; then"
    " `restore create` without --location)"
)
_WITHOUT_DATA: Final = "with --without-volume-data it comes back empty"


class DataLoss(msgspec.Struct, frozen=True, kw_only=True):
    """Why the data of a volume is not restored, and what the user can do."""

    reason: str
    advice: str


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """The kinds of volume data that this restore can restore.

    Attributes:
        pod_volumes: snapshots of pod volumes by restic and kopia.
        csi: CSI snapshots.
        csi_is_on: whether the feature for them is on; then they need only that the cluster serves them.
        csi_claims: the claims with usable CSI snapshots in the backup.
        moved_data: data that was moved into the location.
    """

    pod_volumes: bool
    csi: bool
    csi_is_on: bool = False
    csi_claims: Collection[Claim] = ()
    moved_data: bool = False


class SavedData(msgspec.Struct, frozen=True, kw_only=True):
    """The records of volume data in a backup.

    Attributes:
        infos: none for backups of Velero before 1.13.
        operations: of Velero 1.11 and later, not checked.
    """

    pod_volumes: PodVolumeCatalogue
    infos: Sequence[BackupVolumeInfo] = ()
    operations: Sequence[JSONObject] = ()


def lost_claims(
    saved: SavedData, archive: ArchiveIndex, restore: Restore, can: Abilities
) -> dict[Claim, DataLoss]:
    """The claims whose data is in the backup but cannot be restored.

    Args:
        restore: with `restorePVs: false` it uses no snapshots, nor moved data.
    """
    found: dict[Claim, DataLoss] = {}
    if restore.spec.restore_pvs is not False:
        for claim in can.csi_claims if not can.csi else ():
            found[claim] = _no_csi("", can)
        for info in saved.infos:
            if info.backup_method == BackupMethod.CSI_SNAPSHOT and not info.snapshot_data_moved:
                handle = info.csi_snapshot_info.snapshot_handle if info.csi_snapshot_info else ""
                if not can.csi:
                    found[info.claim] = _no_csi(handle, can)
                elif info.claim not in can.csi_claims:
                    found[info.claim] = DataLoss(
                        reason=f"it is in the CSI snapshot {handle}, and the backup has no VolumeSnapshot",
                        advice="restore the snapshot with the tools of the storage system",
                    )
        moved = _moved_volumes(saved, archive)
        for claim in _moved_claims(saved, archive, restore.spec.backup_name):
            loss = _moved_loss(moved.get(claim), can)
            if loss is not None:
                found[claim] = loss
            else:
                found.pop(claim, None)
    for info in saved.infos:
        if info.backup_method == BackupMethod.POD_VOLUME_BACKUP and info.pvb_info is not None:
            of_info = info.pvb_info
            loss = pod_volume_loss(of_info.uploader_type or "restic", of_info.snapshot_handle, can)
            if loss is not None and of_info.snapshot_handle:
                found[info.claim] = loss
    for backup in saved.pod_volumes.backups:
        if backup.status.snapshot_id:
            loss = pod_volume_loss(uploader_of(backup), backup.status.snapshot_id, can)
            claim_of_pod = _claim_of_pod(
                archive, backup.spec.pod.namespace, backup.spec.pod.name, backup.spec.volume
            )
            name = backup.metadata.annotations.get(labels.PVC_NAME) or claim_of_pod
            if loss is not None:
                found[(backup.spec.pod.namespace, name)] = loss
    return {claim: loss for claim, loss in found.items() if claim[1]}


def snapshotted_claims(
    saved: SavedData, archive: ArchiveIndex, restore: Restore, can: Abilities
) -> frozenset[Claim]:
    """The claims whose data is in CSI snapshots or was moved, whether or not it can be restored.

    Their old volumes are never restored: two clusters would use one disk.
    """
    of_infos = {info.claim for info in saved.infos if info.backup_method == BackupMethod.CSI_SNAPSHOT}
    found = of_infos.union(can.csi_claims, _moved_claims(saved, archive, restore.spec.backup_name))
    return frozenset(claim for claim in found if claim[1])


def restorable_moved(
    saved: SavedData, archive: ArchiveIndex, lost: Collection[Claim]
) -> dict[Claim, MovedVolume]:
    """The moved data that is restored: the data of all claims except the lost ones."""
    found = _moved_volumes(saved, archive)
    return {
        claim: volume
        for claim, volume in found.items()
        if isinstance(volume, MovedVolume) and claim not in lost
    }


def _moved_volumes(saved: SavedData, archive: ArchiveIndex) -> dict[Claim, MovedVolume | NotMoved]:
    return moved_volumes(saved.operations, partial(_read, archive))


def _moved_loss(moved: MovedVolume | NotMoved | None, can: Abilities) -> DataLoss | None:
    """Why the moved data of a claim is not restored; None if it is."""
    if moved is None:
        return DataLoss(
            reason="it was moved into the backup location by a data mover, and the backup has no record of"
            " the operation that would tell where",
            advice=_WITH_VELERO,
        )
    if isinstance(moved, NotMoved):
        return DataLoss(
            reason=f"it was to be moved into the backup location, but {moved.reason}", advice=_WITH_VELERO
        )
    if not can.moved_data:
        return DataLoss(
            reason=f"it was moved into the backup location (snapshot {moved.snapshot}), from where node"
            " agents of a server restore it, and this restore is made without them",
            advice=_WITH_NODE_AGENTS,
        )
    return None


def pod_volume_loss(uploader: str, snapshot: str, can: Abilities) -> DataLoss | None:
    """Why a pod volume that an uploader saved is not restored; None if it is."""
    if uploader not in UPLOADERS:
        return DataLoss(
            reason=f"it was saved with {uploader} (snapshot {snapshot}), and this version restores snapshots"
            f" of {' and '.join(UPLOADERS)} only",
            advice=_WITH_VELERO,
        )
    if not can.pod_volumes:
        return DataLoss(
            reason=f"it was saved with {uploader} (snapshot {snapshot}), which the node agents of a server"
            " restore, and this restore is made without them",
            advice=_WITH_NODE_AGENTS,
        )
    return None


def _no_csi(handle: str, can: Abilities) -> DataLoss:
    snapshot = f"the CSI snapshot {handle}" if handle else "a CSI snapshot"
    if can.csi_is_on:
        return DataLoss(
            reason=f"it is in {snapshot}, and this cluster does not serve {SNAPSHOTS}",
            advice="install the definitions and the controller of the CSI snapshotter, and restore again",
        )
    return DataLoss(
        reason=f"it is in {snapshot}, and volumes are restored from CSI snapshots with the feature EnableCSI"
        " only",
        advice="restore with --features EnableCSI",
    )


def _moved_claims(saved: SavedData, archive: ArchiveIndex, backup: str) -> Iterable[Claim]:
    yield from moved_claims(saved.infos, saved.operations)
    for upload in _stored(archive, _DATA_UPLOADS):
        maker = mapping(upload, "metadata", "labels").get(labels.BACKUP_NAME)
        if maker is not None and maker != labels.label_value(backup):
            continue  # a backup of the server's namespace has those of other backups too
        spec = upload.get("spec")
        if isinstance(spec, dict) and spec.get("sourcePVC"):
            yield str(spec.get("sourceNamespace") or ""), str(spec["sourcePVC"])


def _stored(archive: ArchiveIndex, group_resource: str) -> Iterable[JSONObject]:
    """The objects of a kind that can be read; they are used as hints only."""
    for namespace in archive.namespaces(group_resource):
        for name in archive.names(group_resource, namespace):
            found = _read(archive, group_resource, namespace, name)
            if found is not None:
                yield found


def _read(archive: ArchiveIndex, group_resource: str, namespace: str, name: str) -> JSONObject | None:
    try:
        found = orjson.loads(archive.read(group_resource, namespace, name))
    except (ArchiveError, orjson.JSONDecodeError):
        return None  # reported with its own item
    return found if isinstance(found, dict) else None


def _claim_of_pod(archive: ArchiveIndex, namespace: str, pod: str, volume: str) -> str:
    """The claim behind a volume of a stored pod; empty if there is none."""
    found = _read(archive, PODS.group_resource, namespace, pod)
    try:
        source = find_volume(found, volume) if found is not None else None
        return claim_name(found, source) if found is not None and source is not None else ""
    except (LookupError, TypeError, AttributeError):
        return ""  # no API server would have stored it; reported with its own item


Exists = Callable[[], Awaitable[bool]]
"""Whether the item exists in the cluster already; then it is not changed, as in any restore."""


class VolumeDataKeeper(msgspec.Struct):
    """Keeps claims and pods from being restored without their data.

    Attributes:
        lost: the result of `lost_claims`.
    """

    lost: dict[Claim, DataLoss]
    pod_volumes: PodVolumeCatalogue
    can: Abilities
    accepted: bool
    """Whether the user accepts empty volumes."""
    restore: Restore
    moved: dict[Claim, MovedVolume] = msgspec.field(default_factory=dict)
    """The moved data that is restored."""
    snapshotted: frozenset[Claim] = frozenset()
    """The result of `snapshotted_claims`."""
    has_records: bool = False
    """Whether the backup has a record of each volume whose data it has."""
    read: ReadItem = lambda _resource, _namespace, _name: None
    """Reads an item of the backup."""
    is_tuned: bool = False
    """Whether the restore has settings for the uploader, of which restic has none."""
    _handled: set[Claim] = msgspec.field(default_factory=set)

    @classmethod
    def of(
        cls, saved: SavedData, archive: ArchiveIndex, restore: Restore, can: Abilities
    ) -> "VolumeDataKeeper":
        """The keeper of one restore."""
        accepted = restore.metadata.annotations.get(labels.WITHOUT_VOLUME_DATA) == "true"
        config = restore.spec.uploader_config
        is_tuned = config is not None and bool(config.write_sparse_files or config.parallel_files_download)
        lost = lost_claims(saved, archive, restore, can)
        wanted = restore.spec.restore_pvs is not False
        moved = restorable_moved(saved, archive, lost) if can.moved_data and wanted else {}
        snapshotted = snapshotted_claims(saved, archive, restore, can)
        return cls(
            lost,
            saved.pod_volumes,
            can,
            accepted,
            restore,
            moved,
            snapshotted,
            has_records=bool(saved.infos),
            read=partial(_read, archive),
            is_tuned=is_tuned,
        )

    @property
    def claims_with_new_volumes(self) -> frozenset[Claim]:
        """The claims that must not be bound to their old volumes."""
        return self.snapshotted.union(self.lost)

    def prepare_snapshot(self, snapshot: JSONObject) -> None:
        """Note on a VolumeSnapshot, in place, what is known of its content; while it has its status."""
        if self.can.csi:
            note_manager(snapshot, self.read(CONTENTS, "", bound_content(snapshot)))

    async def prepare_claim(self, ref: ItemRef, claim: JSONObject, exists: Exists, results: Results) -> None:
        """Change a claim whose data is lost, in place, so that it stays unbound and no pod uses it."""
        key = (ref.original_namespace, ref.name)
        if labels.DYNAMIC_PV_RESTORE in mapping(claim, "spec", "selector", "matchLabels"):
            if await exists():
                return
            _stop_waiting(claim, labels.DYNAMIC_PV_RESTORE)
        if labels.AWAITS_VOLUME_DATA in mapping(claim, "spec", "selector", "matchLabels"):
            if await exists():
                return
            self._warn_of_waiting(ref, claim, results)
        if self._is_of_another_backup(key, claim):
            if await exists():
                return
            forget_snapshot(claim)
            if self._is_made_of_nothing(key, claim):
                for name in _SOURCES:
                    claim["spec"].pop(name, None)
        if key in self.moved and not await exists():
            _forget_volume(claim)
            wait_for_data(self.restore, ref, claim)
            return
        if key in self.snapshotted and self.restore.spec.restore_pvs is False and not await exists():
            _forget_volume(claim)  # the user wants no volumes: the claim gets a new and empty one
            return
        loss = self.lost.get(key)
        if loss is None or await exists():
            return
        self._handled.add(key)
        _forget_volume(claim)
        if self.accepted:
            results.warnings.add(
                ref.target_namespace, f"{ref.id} comes back empty: its data is not restored: {loss.reason}"
            )
            return
        claim["spec"]["selector"] = {"matchLabels": {labels.AWAITS_VOLUME_DATA: "true"}}
        results.errors.add(
            ref.target_namespace,
            f"error restoring {ref.id}: the data of its volume is not restored: {loss.reason}. The claim was"
            f" created with a selector that keeps it unbound, so that nothing starts on an empty volume:"
            f" {loss.advice}, or delete the claim and restore again; {_WITHOUT_DATA}",
        )

    def _warn_of_waiting(self, ref: ItemRef, claim: JSONObject, results: Results) -> None:
        """Warn of a claim that was waiting for its data already when it was saved."""
        why = "an earlier restore could not bring its data back, and so the backup has none"
        if self.accepted:
            _stop_waiting(claim, labels.AWAITS_VOLUME_DATA)
            results.warnings.add(ref.target_namespace, f"{ref.id} comes back empty: {why}")
        else:
            results.warnings.add(
                ref.target_namespace,
                f"{ref.id} stays unbound: {why}. Restore it from the backup that has its data;"
                f" {_WITHOUT_DATA}",
            )

    def _is_of_another_backup(self, key: Claim, claim: JSONObject) -> bool:
        """Whether a claim names a snapshot that is not the data that this backup has of its volume.

        Restores and other tools leave such names on claims. They would hide the data of pod volumes.
        """
        if key in self.snapshotted or key in self.lost:
            return False
        has_marks = any(
            labels.VOLUME_SNAPSHOT_NAME in mapping(claim, "metadata", group)
            for group in ("labels", "annotations")
        )
        if self.pod_volumes.of_claim(*key):
            return has_marks or self._is_made_of_nothing(key, claim)
        is_ours = bool(has_marks and snapshot_of_claim(claim, self.restore.spec.backup_name))
        return has_marks and (self.has_records or not is_ours)

    def _is_made_of_nothing(self, key: Claim, claim: JSONObject) -> bool:
        """Whether a claim is made of a VolumeSnapshot that does not come back, and so could not be made."""
        source = source_snapshot(claim)
        if not source:
            return False
        found = self.read(SNAPSHOTS, key[0], source)
        maker = mapping(found, "metadata", "labels").get(labels.BACKUP_NAME)
        is_left_by_a_restore = maker not in (None, labels.label_value(self.restore.spec.backup_name))
        return found is None or is_left_by_a_restore

    async def admits_pod(self, ref: ItemRef, pod: JSONObject, exists: Exists, results: Results) -> bool:
        """Whether a pod is created; one that would start without the data of a volume is left out."""
        pod = _volumes_of(ref, pod)
        self._warn_of_restic(ref, pod, results)
        losses = self._losses_of(ref, pod)
        unbound = [] if self.accepted else self._unbound_claims(ref, pod)
        unsaved = self._unsaved_of(ref, pod)
        if not losses and not unbound and not unsaved:
            return True
        if await exists():
            return True
        for volume, backup in unsaved.items():
            status = backup.status
            why = f": {status.message}" if status.message else ""
            (results.warnings if self.accepted else results.errors).add(
                ref.target_namespace,
                f"the data of volume {volume} of {ref.id} is not restored: it was not saved, its"
                f" PodVolumeBackup is {status.phase or TransferPhase.NEW}{why}",
            )
        if not losses and not unbound:
            return True
        if self.accepted:
            for volume, loss in losses.items():
                results.warnings.add(
                    ref.target_namespace, f"volume {volume} of {ref.id} comes back empty: {loss.reason}"
                )
            return True
        for volume, loss in losses.items():
            results.errors.add(
                ref.target_namespace,
                f"error restoring {ref.id}: the data of volume {volume} is not restored: {loss.reason}."
                " The pod is left out, so that it does not start on an empty volume:"
                f" {loss.advice}; {_WITHOUT_DATA}",
            )
        if not losses:
            results.warnings.add(
                ref.target_namespace,
                f"{ref.id} is left out: the data of its claims {', '.join(unbound)} was not restored",
            )
        return False

    def is_restored_into(self, ref: ItemRef, pod: JSONObject) -> bool:
        """Whether a pod has data of volumes in the backup that no other pod can get."""
        pod = _volumes_of(ref, pod)
        if self.pod_volumes.of_pod(ref.original_namespace, ref.name):
            return True  # the data of one that was not saved is reported with its pod
        if self.pod_volumes.snapshots(pod, ref.original_namespace):
            return True
        ephemeral = (volume for volume in pod["spec"]["volumes"] if volume.get("ephemeral") is not None)
        return any((ref.original_namespace, claim_name(pod, each)) in self.snapshotted for each in ephemeral)

    def _warn_of_restic(self, ref: ItemRef, pod: JSONObject, results: Results) -> None:
        snapshots = self.pod_volumes.snapshots(pod, ref.original_namespace)
        if self.is_tuned and any(snapshot.uploader == RESTIC for snapshot in snapshots.values()):
            self.is_tuned = False  # told once
            results.warnings.add(
                ref.target_namespace,
                "spec.uploaderConfig has no effect on the volumes that restic saved, those of"
                f" {ref.id} among them: restic has no such settings",
            )

    def _unsaved_of(self, ref: ItemRef, pod: JSONObject) -> dict[str, PodVolumeBackup]:
        """The volumes of a pod that were to be saved, but were not.

        An empty volume counts as saved: its PodVolumeBackup is Completed and has no snapshot.
        """
        names = {text(volume, "name") for volume in pod["spec"]["volumes"]}
        unsaved: dict[str, PodVolumeBackup] = {}
        saved = set()
        for backup in self.pod_volumes.of_pod(ref.original_namespace, ref.name):
            if backup.status.snapshot_id or backup.status.phase == TransferPhase.COMPLETED:
                saved.add(backup.spec.volume)
            elif backup.spec.volume in names:
                unsaved[backup.spec.volume] = backup
        return {volume: backup for volume, backup in sorted(unsaved.items()) if volume not in saved}

    def _losses_of(self, ref: ItemRef, pod: JSONObject) -> dict[str, DataLoss]:
        """The losses of a pod's volumes that were not reported with their claims."""
        of_volumes: dict[str, DataLoss] = {}
        others = self.pod_volumes.of_other_uploaders(pod, ref.original_namespace)
        for volume, backup in others.items():
            loss = pod_volume_loss(uploader_of(backup), backup.status.snapshot_id, self.can)
            if loss is not None:
                of_volumes[volume] = loss
        for volume, snapshot in self.pod_volumes.snapshots(pod, ref.original_namespace).items():
            loss = pod_volume_loss(snapshot.uploader, snapshot.id, self.can)
            if loss is not None:
                of_volumes[volume] = loss
        return {
            volume: loss
            for volume, loss in sorted(of_volumes.items())
            if (ref.original_namespace, _claim_of(pod, volume)) not in self._handled
        }

    def _unbound_claims(self, ref: ItemRef, pod: JSONObject) -> list[str]:
        claims = {_claim_of(pod, volume.get("name", "")) for volume in pod["spec"]["volumes"]}
        return sorted(claim for claim in claims if (ref.original_namespace, claim) in self._handled)


def _volumes_of(ref: ItemRef, pod: JSONObject) -> JSONObject:
    """The volumes of a pod, with its name and annotations; the API server refuses an invalid pod later."""
    spec, annotations = pod.get("spec"), pod["metadata"].get("annotations")
    volumes = spec.get("volumes") if isinstance(spec, dict) else None
    return {
        "metadata": {"name": ref.name, "annotations": annotations if isinstance(annotations, dict) else {}},
        "spec": {
            "volumes": [each for each in volumes if isinstance(each, dict)]
            if isinstance(volumes, list)
            else []
        },
    }


def _claim_of(pod: JSONObject, volume: str) -> str:
    source = find_volume(pod, volume)
    return claim_name(pod, source) if source is not None else ""


def _stop_waiting(claim: JSONObject, label: str) -> None:
    """Remove, in place, what an earlier restore left: no driver provides for a selector."""
    selector = mapping(claim, "spec", "selector")
    selector["matchLabels"].pop(label)
    if not any(selector.values()):
        claim["spec"].pop("selector")


def _forget_volume(claim: JSONObject) -> None:
    """Remove, in place, all references of a claim to a volume or a snapshot."""
    clear_binding_info(claim)
    for key in ("volumeName", *_SOURCES):
        claim["spec"].pop(key, None)
    forget_snapshot(claim)
