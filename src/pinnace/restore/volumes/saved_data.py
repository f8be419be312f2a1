"""Volume data that is in a backup but cannot be restored. (docs/adr/020, docs/spec: BEY 11.1)

A claim restored with a new, empty disk would look healthy, and the application would initialise itself on it.
Therefore each such volume is an error; its claim is created so that nothing binds it, and pods that
would start without the data are left out. With `pinnace.io/without-volume-data` on the Restore, they are
created with empty volumes and each is a warning.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.pod_volume import RESTIC
from pinnace.api.velero.restore import Restore
from pinnace.archive.reader import ArchiveIndex
from pinnace.catalogue.moved import ReadItem
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.catalogue.records import BackupRecords
from pinnace.catalogue.tarball import read_item
from pinnace.catalogue.volumes import Claim, Place, SavedVolume, Way
from pinnace.csi.movement.objects import MovedVolume
from pinnace.csi.restore import note_manager
from pinnace.csi.snapshots import (
    CONTENTS,
    SNAPSHOTS,
    bound_content,
    forget_snapshot,
    snapshot_of_claim,
    source_snapshot,
)
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.metadata import clear_binding_info
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.restore.volumes.moved_data import wait_for_data
from pinnace.volumes.pods.pod_claims import claim_name, find_volume
from pinnace.volumes.uploaders import UPLOADERS

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
        moved_data: data that was moved into the location.
    """

    pod_volumes: bool
    csi: bool
    csi_is_on: bool = False
    moved_data: bool = False


def lost_claims(volumes: Sequence[SavedVolume], restore: Restore, can: Abilities) -> dict[Claim, DataLoss]:
    """The claims whose data is in the backup but cannot be restored.

    Args:
        volumes: of several of one claim the last counts.
        restore: with `restorePVs: false` it uses no snapshots, nor moved data.
    """
    found: dict[Claim, DataLoss] = {}
    for volume in volumes:
        if restore.spec.restore_pvs is False and volume.way != Way.POD_VOLUME:
            continue
        loss = loss_of(volume, can)
        if loss is not None:
            found[volume.claim] = loss
        elif volume.way == Way.MOVED:
            found.pop(volume.claim, None)
    return found


def loss_of(volume: SavedVolume, can: Abilities) -> DataLoss | None:
    """Why the data of a volume is not restored; None if it is, or if there is none."""
    match volume.way:
        case Way.CSI_SNAPSHOT:
            return _csi_loss(volume, can)
        case Way.MOVED:
            return _moved_loss(volume, can)
        case Way.POD_VOLUME if volume.place != Place.NOWHERE:
            return _pod_volume_loss(volume, can)
    return None


def _moved_loss(volume: SavedVolume, can: Abilities) -> DataLoss | None:
    if volume.lacks:
        return DataLoss(reason=volume.lacks, advice=_WITH_VELERO)
    if not can.moved_data:
        return DataLoss(
            reason=f"it was moved into the backup location (snapshot {volume.snapshot}), from where node"
            " agents of a server restore it, and this restore is made without them",
            advice=_WITH_NODE_AGENTS,
        )
    return None


def _pod_volume_loss(volume: SavedVolume, can: Abilities) -> DataLoss | None:
    saved = f"it was saved with {volume.uploader} (snapshot {volume.snapshot})"
    if volume.place == Place.ELSEWHERE:
        return DataLoss(
            reason=f"{saved}, and this version restores snapshots of {' and '.join(UPLOADERS)} only",
            advice=_WITH_VELERO,
        )
    if not can.pod_volumes:
        return DataLoss(
            reason=f"{saved}, which the node agents of a server restore, and this restore is made without"
            " them",
            advice=_WITH_NODE_AGENTS,
        )
    return None


def _csi_loss(volume: SavedVolume, can: Abilities) -> DataLoss | None:
    if can.csi:
        advice = "restore the snapshot with the tools of the storage system"
        return DataLoss(reason=volume.lacks, advice=advice) if volume.lacks else None
    if can.csi_is_on:
        return DataLoss(
            reason=f"it is in {volume}, and this cluster does not serve {SNAPSHOTS}",
            advice="install the definitions and the controller of the CSI snapshotter, and restore again",
        )
    return DataLoss(
        reason=f"it is in {volume}, and volumes are restored from CSI snapshots with the feature EnableCSI"
        " only",
        advice="restore with --features EnableCSI",
    )


Exists = Callable[[], Awaitable[bool]]
"""Whether the item exists in the cluster already; then it is not changed, as in any restore."""


class VolumeDataKeeper(msgspec.Struct):
    """Keeps claims and pods from being restored without their data.

    Attributes:
        lost: the result of `lost_claims`.
    """

    lost: dict[Claim, DataLoss]
    pod_volumes: SavedPodVolumes
    can: Abilities
    accepted: bool
    """Whether the user accepts empty volumes."""
    restore: Restore
    moved: dict[Claim, MovedVolume] = msgspec.field(default_factory=dict)
    """The moved data that is restored."""
    snapshotted: frozenset[Claim] = frozenset()
    """The claims whose data is in CSI snapshots or was moved, whether or not it can be restored.

    Their old volumes are never restored: two clusters would use one disk."""
    has_records: bool = False
    """Whether the backup has a record of each volume whose data it has."""
    read: ReadItem = lambda _resource, _namespace, _name: None
    """Reads an item of the backup."""
    is_tuned: bool = False
    """Whether the restore has settings for the uploader; restic takes none."""
    _handled: set[Claim] = msgspec.field(default_factory=set)

    @classmethod
    def of(
        cls, records: BackupRecords, archive: ArchiveIndex, restore: Restore, can: Abilities
    ) -> "VolumeDataKeeper":
        """The keeper of one restore."""
        accepted = restore.metadata.annotations.get(labels.WITHOUT_VOLUME_DATA) == "true"
        config = restore.spec.uploader_config
        is_tuned = config is not None and bool(config.write_sparse_files or config.parallel_files_download)
        volumes = records.volumes(archive, restore.spec.backup_name)
        lost = lost_claims(volumes, restore, can)
        wanted = restore.spec.restore_pvs is not False
        moved = {
            volume.claim: volume.record
            for volume in volumes
            if isinstance(volume.record, MovedVolume) and not volume.lacks and volume.claim not in lost
        }
        return cls(
            lost,
            records.pod_volumes,
            can,
            accepted,
            restore,
            moved if can.moved_data and wanted else {},
            frozenset(each.claim for each in volumes if each.way in (Way.CSI_SNAPSHOT, Way.MOVED)),
            has_records=bool(records.infos),
            read=partial(read_item, archive),
            is_tuned=is_tuned,
        )

    @property
    def claims_with_new_volumes(self) -> frozenset[Claim]:
        """The claims that must not be bound to their old volumes."""
        return self.snapshotted.union(self.lost)

    def why_not_in_place(self) -> dict[Claim, str]:
        """Why data is not restored into claims that exist, by claim, where it cannot be restored at all."""
        return {claim: f"{loss.reason}: {loss.advice}" for claim, loss in self.lost.items()}

    def prepare_snapshot(self, snapshot: JSONObject) -> None:
        """Note on a VolumeSnapshot, in place, what is known of its content; while it has its status."""
        if self.can.csi:
            note_manager(snapshot, self.read(CONTENTS, "", bound_content(snapshot)))

    def snapshot_for(self, ref: ItemRef, claim: JSONObject) -> str:
        """The VolumeSnapshot of the backup that a prepared claim is made of; empty if it is made of none."""
        if not self.can.csi or self.restore.spec.restore_pvs is False:
            return ""
        name = snapshot_of_claim(claim, self.restore.spec.backup_name)
        found = name and self.read(SNAPSHOTS, ref.original_namespace, name)
        return name if found else ""

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
            ref.warn(
                results,
                Code.VOLUME_EMPTY,
                f"{ref.id} comes back empty: its data is not restored: {loss.reason}",
            )
            return
        claim["spec"]["selector"] = {"matchLabels": {labels.AWAITS_VOLUME_DATA: "true"}}
        ref.fail(
            results,
            Code.VOLUME_DATA_NOT_RESTORED,
            f"the data of its volume is not restored: {loss.reason}. The claim"
            " was created with a selector that keeps it unbound, so that nothing starts on an empty"
            f" volume: {loss.advice}, or delete the claim and restore again; {_WITHOUT_DATA}",
        )

    def _warn_of_waiting(self, ref: ItemRef, claim: JSONObject, results: Results) -> None:
        """Warn of a claim that was waiting for its data already when it was saved."""
        why = "an earlier restore could not bring its data back, and so the backup has none"
        if self.accepted:
            _stop_waiting(claim, labels.AWAITS_VOLUME_DATA)
            ref.warn(results, Code.VOLUME_EMPTY, f"{ref.id} comes back empty: {why}")
        else:
            ref.warn(
                results,
                Code.VOLUME_DATA_NOT_RESTORED,
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
        for volume, saved in unsaved.items():
            (results.warnings if self.accepted else results.errors).add(
                ref.target_namespace,
                ref.notice(
                    Code.VOLUME_DATA_NOT_SAVED,
                    f"the data of volume {volume} of {ref.id} is not restored: it was not saved,"
                    f" {saved.lacks}",
                ),
            )
        if not losses and not unbound:
            return True
        if self.accepted:
            for volume, loss in losses.items():
                ref.warn(
                    results, Code.VOLUME_EMPTY, f"volume {volume} of {ref.id} comes back empty: {loss.reason}"
                )
            return True
        for volume, loss in losses.items():
            ref.fail(
                results,
                Code.VOLUME_DATA_NOT_RESTORED,
                f"the data of volume {volume} is not restored: {loss.reason}. The pod is left out, so that"
                f" it does not start on an empty volume: {loss.advice}; {_WITHOUT_DATA}",
            )
        if not losses:
            ref.warn(
                results,
                Code.VOLUME_DATA_NOT_RESTORED,
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
                Notice(
                    Code.SETTING_IGNORED,
                    "spec.uploaderConfig has no effect on the volumes that restic saved, those of"
                    f" {ref.id} among them: restic has no such settings",
                ),
            )

    def _unsaved_of(self, ref: ItemRef, pod: JSONObject) -> dict[str, SavedVolume]:
        """The volumes of a pod that were to be saved, but were not. An empty volume counts as saved."""
        names = {text(volume, "name") for volume in pod["spec"]["volumes"]}
        found = self.pod_volumes.of_pod(ref.original_namespace, ref.name)
        unsaved = {each.volume: each for each in found if each.lacks and each.volume in names}
        saved = {each.volume for each in found if not each.lacks}
        return {name: volume for name, volume in sorted(unsaved.items()) if name not in saved}

    def _losses_of(self, ref: ItemRef, pod: JSONObject) -> dict[str, DataLoss]:
        """The losses of a pod's volumes that were not reported with their claims."""
        saved = self.pod_volumes.saved(pod, ref.original_namespace)
        return {
            name: loss
            for name, volume in sorted(saved.items())
            if (loss := _pod_volume_loss(volume, self.can)) is not None
            and (ref.original_namespace, _claim_of(pod, name)) not in self._handled
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
