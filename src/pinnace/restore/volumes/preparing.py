"""Decides whether and how PersistentVolumes and their claims are restored. (docs/spec: RST 11-13)

A `VolumeRestorer` makes volumes from native snapshots; without it, a volume with such a snapshot is an error.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Final

import msgspec

from pinnace.aio.timing import poll
from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    APIResource,
)
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.restore.cluster import ClusterClient, TargetCluster
from pinnace.restore.collaborators import VolumeRestorer
from pinnace.restore.errors import ItemError
from pinnace.restore.journal import VolumeEntry
from pinnace.restore.metadata import clear_binding_info, is_terminating
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.volumes.native.snapshotters import SnapshotError

NO_RESTORER: Final = (
    "it was backed up by a native snapshot, and no volume snapshotter is set up to restore it"
)


class VolumeSource(Enum):
    """How a PersistentVolume is restored; the letters are those of the table in the specification."""

    FROM_SNAPSHOT = "A"
    POD_VOLUME_BACKUP = "B"
    CSI_SNAPSHOT = "B'"
    PROVISION_ANEW = "C"
    AS_IT_IS = "D"


def decide(
    volume: JSONObject, *, has_snapshot: bool, has_pod_volume_backup: bool, has_csi_snapshot: bool = False
) -> VolumeSource:
    """Choose how a volume is restored; the first rule that applies wins. (docs/spec: RST 11, BEY 5.9)"""
    if has_snapshot:
        return VolumeSource.FROM_SNAPSHOT
    if has_pod_volume_backup:
        return VolumeSource.POD_VOLUME_BACKUP
    if has_csi_snapshot:
        return VolumeSource.CSI_SNAPSHOT
    if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        return VolumeSource.PROVISION_ANEW
    return VolumeSource.AS_IT_IS


class PreparedVolumes(msgspec.Struct):
    """The facts about volumes that the restore of claims needs; volumes are restored before claims."""

    to_provision: set[str] = msgspec.field(default_factory=set)
    renamed: dict[str, str] = msgspec.field(default_factory=dict)


def adjust_claim(claim: JSONObject, prepared: PreparedVolumes) -> None:
    """Adjust a claim to its restored volume, in place. (docs/spec: RST 13)

    A claim without `volumeName` keeps its annotations: it was never bound.
    """
    spec = claim.get("spec")
    volume_name = spec.get("volumeName") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(volume_name, str) or not volume_name:
        return
    clear_binding_info(claim)
    if volume_name in prepared.to_provision:
        del spec["volumeName"]
    elif volume_name in prepared.renamed:
        spec["volumeName"] = prepared.renamed[volume_name]


class SavedVolumes(msgspec.Struct, frozen=True, kw_only=True):
    """The records of volume data in a backup.

    Attributes:
        snapshots: native ones.
        pod_volumes: the PodVolumeBackups.
        claims_with_data: namespace and name of the claims whose data is in CSI snapshots, or cannot be
            restored: their old volumes are not restored, or the claims would be bound to them.
    """

    snapshots: Iterable[VolumeSnapshot]
    pod_volumes: SavedPodVolumes
    claims_with_data: Collection[tuple[str, str]] = ()


class VolumePreparer:
    """Prepares each PersistentVolume for its restore, and remembers the facts that claims need.

    Args:
        restorer: makes volumes from native snapshots; None if this installation cannot.
        new_uuid: source of the random part of a cloned volume's name.
    """

    def __init__(
        self,
        target: TargetCluster,
        *,
        restore: Restore,
        backup: Backup,
        saved: SavedVolumes,
        restorer: VolumeRestorer | None,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self.prepared = PreparedVolumes()
        self.made: dict[str, VolumeSnapshot] = {}
        """The snapshots that volumes were made from, by the name of the volume in the backup."""
        self._client = target.client
        self._mapping: Mapping[str, str] = restore.spec.namespace_mapping
        self._wants_volumes = (
            restore.spec.restore_pvs is not False and backup.spec.snapshot_volumes is not False
        )
        self._is_asked_for = restore.spec.restore_pvs is not False
        self._pod_volumes = saved.pod_volumes
        self._claims_with_data = saved.claims_with_data
        self._restorer = restorer
        self._journal = target.journal
        self._terminating_timeout_seconds = target.terminating_timeout_seconds
        self._activity = target.activity
        self._clock = target.clock
        self._log = target.log
        self._new_uuid = new_uuid
        self._snapshots: dict[str, VolumeSnapshot] = {}
        self._unsaved: list[str] = []
        for snapshot in saved.snapshots:
            name = snapshot.spec.persistent_volume_name
            if snapshot.status.provider_snapshot_id:
                self._snapshots.setdefault(name, snapshot)
            else:
                self._unsaved.append(name)

    def warn_of_unsaved(self) -> None:
        """Log each volume that the backup lists without a snapshot."""
        message = "The backup lists a volume without a snapshot, treating it as not snapshotted"
        for name in self._unsaved:
            self._log.warning(Notice(Code.VOLUME_DATA_NOT_SAVED, message), persistentVolume=name)

    async def prepare(self, ref: ItemRef, volume: JSONObject, results: Results) -> JSONObject | None:
        """Decide how a volume is restored, and prepare it; one that is left out with its data is a warning.

        Returns:
            The volume to create, possibly renamed; None if it must not be restored.

        Raises:
            ItemError: the volume cannot be restored.
        """
        spec = volume.get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("claimRef", {}), dict | None):
            raise ref.error(Code.ITEM_UNREADABLE, "spec is not a volume's")
        snapshot = self._snapshots.get(ref.name)
        source = decide(
            volume,
            has_snapshot=snapshot is not None,
            has_pod_volume_backup=self._has_pod_volume_backup(ref, spec),
            has_csi_snapshot=self._has_csi_snapshot(spec),
        )
        if snapshot is not None:
            return await self._from_snapshot(ref, volume, snapshot, results)
        if source is VolumeSource.AS_IT_IS:
            self._remap_claim(spec)
            clear_binding_info(volume)
            await self._warn_of_old_storage(ref, volume, results)
            return volume
        self._log.info(
            "Dynamically re-provisioning persistent volume", name=ref.name, reason=source.name.lower()
        )
        self.prepared.to_provision.add(ref.name)
        if source is VolumeSource.PROVISION_ANEW and self._is_asked_for:
            await self._warn_of_loss(ref, spec.get("claimRef") or {}, results)
        return None

    async def _warn_of_loss(self, ref: ItemRef, claim: JSONObject, results: Results) -> None:
        """Warn that a volume without data in the backup is left out, unless it or its claim exists."""
        namespace, name = text(claim, "namespace"), text(claim, "name")
        why = "its reclaim policy is Delete, and the backup has no data of it"
        try:
            if name:
                target = self._mapping.get(namespace, namespace)
                what = f"its claim {target}/{name} gets a new and empty volume"
                found = await self._before_restore(PERSISTENT_VOLUME_CLAIMS, name, target)
            else:
                what = "no claim uses it"
                found = await self._before_restore(PERSISTENT_VOLUMES, ref.name)
        except KubeError:
            found = None  # a needless warning is better than data that is lost without one
        if found is None:
            ref.warn(results, Code.VOLUME_NOT_RESTORED, f"{ref.id} was not restored: {why}; {what}")

    async def _warn_of_old_storage(self, ref: ItemRef, volume: JSONObject, results: Results) -> None:
        """Warn of a volume that comes back though none is wanted, unless it is there already."""
        if self._is_asked_for:
            return
        try:
            found = await self._before_restore(PERSISTENT_VOLUMES, ref.name)
        except KubeError:
            found = None  # a needless warning is better than none
        if found is None:
            results.warnings.add(
                ref.target_namespace,
                Notice(Code.OLD_STORAGE_NAMED, _of_old_storage(ref, volume), object=ref.id),
            )

    async def _before_restore(
        self, resource: APIResource, name: str, namespace: str = ""
    ) -> JSONObject | None:
        """An object that the restore did not create; None if there is none. Raises KubeError."""
        found = await _get_or_none(self._client, resource, name, namespace)
        if found is None or self._journal.is_own(resource.group_resource, found):
            return None
        return found

    def _has_pod_volume_backup(self, ref: ItemRef, spec: JSONObject) -> bool:
        claim = spec.get("claimRef") or {}
        saved = self._pod_volumes.of_claim(claim.get("namespace", ""), claim.get("name", ""))
        if saved and not any(volume.snapshot for volume in saved):
            self._log.warning(
                Notice(
                    Code.VOLUME_EMPTY,
                    "The pod volume backup of this persistent volume holds no data, its claim comes back"
                    " empty",
                ),
                name=ref.name,
                claim=f"{claim.get('namespace')}/{claim.get('name')}",
            )
        return bool(saved)

    def _has_csi_snapshot(self, spec: JSONObject) -> bool:
        claim = spec.get("claimRef") or {}
        return (claim.get("namespace", ""), claim.get("name", "")) in self._claims_with_data

    async def _from_snapshot(
        self, ref: ItemRef, volume: JSONObject, snapshot: VolumeSnapshot, results: Results
    ) -> JSONObject:
        """Case A of the table."""
        begun = self._journal.volume(ref.name)
        if begun is not None and begun.volume is not None:
            return self._made_before(ref, begun.volume, snapshot)
        if begun is not None:
            ref.warn(
                results,
                Code.VOLUME_MAY_BE_LEFT,
                f"{ref.id}: the restore was interrupted while a volume was made from snapshot"
                f" {snapshot.status.provider_snapshot_id}; another one is made now, and if the first one is"
                " there, nothing uses it: look for it at the provider, and delete it",
            )
        rename = await self._must_rename(ref, volume["spec"])
        self._remap_claim(volume["spec"])
        if not rename and not await self._is_wanted(ref):
            return volume
        clear_binding_info(volume)
        volume = await self._make_volume(ref, volume, snapshot, results)
        new_name = volume["metadata"]["name"]
        if new_name == ref.name and rename:
            new_name = f"velero-clone-{self._new_uuid()}"
        if new_name != ref.name:
            self.prepared.renamed[ref.name] = new_name
            volume["metadata"]["name"] = new_name
            annotations = volume["metadata"].get("annotations") or {}
            volume["metadata"]["annotations"] = {**annotations, labels.ORIGINAL_PV_NAME: ref.name}
        if ref.name in self.made:
            await self._journal.note(VolumeEntry(name=ref.name, volume=volume))
        return volume

    def _made_before(self, ref: ItemRef, volume: JSONObject, snapshot: VolumeSnapshot) -> JSONObject:
        """The volume that was made before the restore was interrupted."""
        self.made[ref.name] = snapshot
        if (name := text(volume, "metadata", "name")) != ref.name:
            self.prepared.renamed[ref.name] = name
        return volume

    def _remap_claim(self, spec: JSONObject) -> None:
        claim = spec.get("claimRef")
        if claim and claim.get("namespace") in self._mapping:
            claim["namespace"] = self._mapping[claim["namespace"]]

    async def _must_rename(self, ref: ItemRef, spec: JSONObject) -> bool:
        """Whether the volume must get a new name: its claim's namespace is mapped, and its name is taken."""
        claim = spec.get("claimRef")
        if not claim or claim.get("namespace") not in self._mapping:
            return False
        try:
            await self._client.get(PERSISTENT_VOLUMES, ref.name)
        except NotFound:
            return False
        except KubeError as error:
            raise ItemError(
                notice_of(
                    error,
                    Code.VOLUME_NOT_RESTORED,
                    f"error checking if persistent volume exists in the cluster: {error}",
                    object=ref.id,
                )
            ) from error
        return True

    async def _is_wanted(self, ref: ItemRef) -> bool:
        """Wait while a volume of this name is being deleted; return whether there is none afterwards."""
        wanted = False
        deletion = f"volume {ref.name} to be deleted"

        async def settled() -> bool:
            nonlocal wanted
            state = await self._state_in_cluster(ref.name)
            wanted = state is _InCluster.ABSENT
            if state is _InCluster.TERMINATING:
                self._activity.wait_for(deletion)
            return state is not _InCluster.TERMINATING

        timeout_seconds = self._terminating_timeout_seconds
        try:
            if await poll(settled, clock=self._clock, timeout_seconds=timeout_seconds):
                return wanted
            problem = "timed out waiting for the condition"
            self._log.warning(
                Notice(Code.VOLUME_NOT_RESTORED, "timeout reached waiting for persistent volume to delete"),
                name=ref.name,
            )
        except KubeError as error:
            problem = str(error)
        finally:
            self._activity.waited_for(deletion)
        raise ItemError(
            ref.notice(
                Code.VOLUME_NOT_RESTORED,
                f"error waiting on in-cluster persistentvolume {ref.name}: {problem}",
            )
        )

    async def _state_in_cluster(self, name: str) -> "_InCluster":
        volume = await _get_or_none(self._client, PERSISTENT_VOLUMES, name)
        if volume is None:
            return _InCluster.ABSENT
        if volume.get("status", {}).get("phase") == "Released" or _is_deleting(volume):
            return _InCluster.TERMINATING
        claim_ref = volume.get("spec", {}).get("claimRef")
        if not claim_ref:
            return _InCluster.IN_USE
        namespace = claim_ref.get("namespace", "")
        claim = await _get_or_none(
            self._client, PERSISTENT_VOLUME_CLAIMS, claim_ref.get("name", ""), namespace
        )
        if claim is None or _is_deleting(claim):
            return _InCluster.TERMINATING
        home = await _get_or_none(self._client, NAMESPACES, namespace)
        if home is None or is_terminating(home):
            return _InCluster.TERMINATING
        return _InCluster.IN_USE

    async def _make_volume(
        self, ref: ItemRef, volume: JSONObject, snapshot: VolumeSnapshot, results: Results
    ) -> JSONObject:
        """The volume made from its snapshot; unchanged, with a warning, if volumes are not restored."""
        if not self._wants_volumes:
            results.warnings.add(
                ref.target_namespace,
                Notice(Code.OLD_STORAGE_NAMED, _of_old_storage(ref, volume), object=ref.id),
            )
            return volume
        try:
            if self._restorer is None:
                raise SnapshotError(NO_RESTORER)
            await self._journal.note(VolumeEntry(name=ref.name))
            made = await self._restorer.restore_volume(volume, snapshot)
        except SnapshotError as error:
            raise ItemError(
                notice_of(
                    error,
                    Code.VOLUME_NOT_RESTORED,
                    f"error executing PVAction for {ref.id}: {error}",
                    object=ref.id,
                )
            ) from error
        self.made[ref.name] = snapshot
        return made


class _InCluster(Enum):
    """The state of a PersistentVolume of the same name in the cluster."""

    ABSENT = "absent"
    TERMINATING = "terminating"
    IN_USE = "in use"


async def _get_or_none(
    client: ClusterClient, resource: APIResource, name: str, namespace: str = ""
) -> JSONObject | None:
    try:
        return await client.get(resource, name, namespace or None)
    except NotFound:
        return None


def _of_old_storage(ref: ItemRef, volume: JSONObject) -> str:
    """The warning of a volume that points at the storage it had in the old cluster."""
    driver, handle = text(volume, "spec", "csi", "driver"), text(volume, "spec", "csi", "volumeHandle")
    storage = f"its old storage, {handle} of {driver}" if driver else "its old storage"
    return (
        f"{ref.id} comes back without its data from a snapshot, and points at {storage}. If something else"
        " still uses that storage, delete the claim and the volume before a pod starts"
    )


def _is_deleting(item: JSONObject) -> bool:
    return item.get("metadata", {}).get("deletionTimestamp") is not None
