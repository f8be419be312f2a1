"""Whether the data that a backup has outside of its files is there: in repositories, clouds, storage systems.

Data that cannot be checked is a finding of its own, by name; nothing is passed over.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from pinnace.api.values.counts import counted
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.archive.errors import ArchiveError
from pinnace.browse.checks import Check, CheckResult
from pinnace.catalogue.reading import read_volumes
from pinnace.catalogue.volumes import Place, SavedVolume
from pinnace.csi.deletion import StoredSnapshot
from pinnace.csi.looking import look_up_csi
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.operations.deletion import summary
from pinnace.operations.verification.repositories import Hold, OpenAccess, look_up_snapshots, no_lock
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError
from pinnace.volumes.native.snapshotters import SnapshotError, SnapshotLookup, Snapshotters, called
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.share import ReadShare
from pinnace.volumes.uploaders import UPLOADERS

_NATIVE: Final = "native snapshots"
_CSI: Final = "CSI snapshots in storage"


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that gives access to snapshots.

    Attributes:
        snapshotters: the providers of its snapshot locations.
        ask_in: as in `look_up_csi`.
    """

    client: KubeClient
    discovery: Discovery
    snapshotters: Snapshotters
    ask_in: str = ""


class NoCluster(Exception):
    """There is no cluster to ask; the text says why."""


OpenView = Callable[[], Awaitable[ClusterView]]
"""Opens the cluster, once it is needed. Raises NoCluster."""


class VolumeLookup(msgspec.Struct, frozen=True, kw_only=True):
    """Looks for the volume data of backups.

    Attributes:
        location, store: where the backup is.
        access: opens the location's repositories.
        cluster: is called only for backups that have snapshots.
        share: how much data of repositories is read; None for none.
        hold: as in `look_up_snapshots`.
    """

    location: BackupStorageLocation
    store: BackupStore
    access: OpenAccess
    cluster: OpenView
    share: ReadShare | None = None
    hold: Hold = no_lock

    async def findings(self, backup: str) -> list[Check]:
        """The findings of a backup; none for a backup without volume data."""
        try:
            volumes = await read_volumes(self.store, backup, None)
        except (StorageError, ArchiveError) as error:
            return [_finding("volumes", CheckResult.BAD, f"the records cannot be read: {error}")]

        def in_place(place: Place) -> list[SavedVolume]:
            return [each for each in volumes if each.place == place]

        found = []
        for uploader in UPLOADERS:
            if saved := [each for each in in_place(Place.REPOSITORY) if each.uploader == uploader]:
                found += await self._repositories(uploader, saved)
        if snapshots := [*in_place(Place.CLOUD), *in_place(Place.STORAGE_SYSTEM)]:
            found += await self._snapshots(snapshots)
        if others := in_place(Place.ELSEWHERE):
            found.append(_finding("other volume data", CheckResult.NOT_CHECKED, counted_summary(others)))
        return found

    async def _repositories(self, uploader: str, saved: Sequence[SavedVolume]) -> list[Check]:
        check = f"{uploader} snapshots"
        try:
            found = await look_up_snapshots(self.location, saved, self.access, self.share, self.hold)
        except (UploaderError, OSError) as error:
            return [_finding(check, CheckResult.NOT_CHECKED, f"{counted(len(saved), 'snapshot')}: {error}")]
        read = f"; {self.share} of the data read" if self.share is not None and found.read else ""
        return _findings(check, found.missing, found.unknown, f"{counted(len(saved), 'snapshot')}{read}")

    async def _snapshots(self, volumes: Sequence[SavedVolume]) -> list[Check]:
        """Native and CSI snapshots, which are looked at by way of a cluster."""
        try:
            view = await self.cluster()
        except NoCluster as error:
            named: dict[str, list[object]] = {
                _NATIVE: [f"snapshot {each.snapshot}" for each in volumes if each.place == Place.CLOUD],
                _CSI: [each for each in volumes if each.place == Place.STORAGE_SYSTEM],
            }
            return [
                _finding(check, CheckResult.NOT_CHECKED, f"{counted_summary(names)}: {error}")
                for check, names in named.items()
                if names
            ]
        records = [each.record for each in volumes]
        return [
            *await _native(view, [each for each in records if isinstance(each, VolumeSnapshot)]),
            *await _csi(view, [each for each in records if isinstance(each, StoredSnapshot)]),
        ]


async def _native(view: ClusterView, records: Sequence[VolumeSnapshot]) -> list[Check]:
    if not records:
        return []
    missing, unknown = [], []
    for record in records:
        snapshot_id, location = record.status.provider_snapshot_id, record.spec.location
        try:
            snapshotter = await view.snapshotters.of(location)
            if not isinstance(snapshotter, SnapshotLookup):
                unknown.append(
                    f"snapshot {snapshot_id}: the plugin of snapshot location {location} cannot be asked"
                    " whether a snapshot exists"
                )
            elif not await called(snapshotter.has_snapshot(snapshot_id), f"snapshot {snapshot_id}"):
                missing.append(f"snapshot {snapshot_id} of {location} is not there")
        except SnapshotError as error:
            unknown.append(f"snapshot {snapshot_id}: {error}")
    return _findings(_NATIVE, missing, unknown, counted(len(records), "snapshot"))


async def _csi(view: ClusterView, snapshots: Sequence[StoredSnapshot]) -> list[Check]:
    if not snapshots:
        return []
    kinds = SnapshotKinds.served(view.discovery)
    reason = "the cluster does not serve VolumeSnapshotContents"
    if kinds is not None:
        try:
            found = await look_up_csi(view.client, kinds, snapshots, ask_in=view.ask_in)
        except KubeError as error:
            reason = str(error)
        else:
            return _findings(_CSI, found.missing, found.unknown, counted(len(snapshots), "snapshot"))
    return [_finding(_CSI, CheckResult.NOT_CHECKED, f"{counted_summary(snapshots)}: {reason}")]


def counted_summary(named: Sequence[object]) -> str:
    """How many there are, and the first by name."""
    return f"{len(named)}: {summary(named)}"


def _findings(check: str, missing: Sequence[str], unknown: Sequence[str], sound: str) -> list[Check]:
    found = []
    if missing:
        found.append(_finding(check, CheckResult.BAD, summary(missing)))
    if unknown:
        found.append(_finding(check, CheckResult.NOT_CHECKED, counted_summary(unknown)))
    return found or [_finding(check, CheckResult.OK, sound)]


def _finding(check: str, result: CheckResult, detail: str) -> Check:
    return Check(name=check, result=result, details=detail)
