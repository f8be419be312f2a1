"""Deleting what a backup has outside of its files: snapshots and pod volumes. (docs/adr/021, CTL 6.2, 6.5)"""

from collections.abc import Sequence
from typing import Final, Protocol

from pinnace.api.values.counts import first_names
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.catalogue.reading import read_deletable
from pinnace.catalogue.volumes import Place, SavedVolume, Way
from pinnace.csi.deletion import StoredSnapshot
from pinnace.csi.objects import delete_csi_snapshots
from pinnace.csi.snapshots import FEATURE, SnapshotKinds
from pinnace.operations.snapshots import snapshotters_of
from pinnace.runs.context import RunContext
from pinnace.volumes.native.snapshots_restore import delete_snapshots
from pinnace.volumes.native.snapshotters import SnapshotError

_NAMED: Final = 10
"""How many snapshots a message names."""


class VolumeData(Protocol):
    """One kind of data that a backup has outside of its files."""

    async def obstacles(self) -> list[str]:
        """The data that cannot be deleted, by name; nothing is touched.

        Raises:
            StorageError, KubeError: it cannot be listed now.
            ArchiveError: the tarball, which alone names some, is damaged.
        """
        ...

    async def delete(self) -> list[str]:
        """Delete the data. Returns the errors. Repeating it is harmless.

        Raises:
            StorageError, KubeError: it cannot be listed now.
        """
        ...


class DeleteOperation:
    """All data that one backup has outside of its files, of a server or of a command without one.

    Ask for `obstacles` first: what they name is left behind by `delete`, and lost with the backup's files.
    """

    def __init__(self, *parts: VolumeData) -> None:
        self._parts = parts

    async def obstacles(self) -> list[str]:
        """As in `VolumeData`, of all parts."""
        return [text for part in self._parts for text in await part.obstacles()]

    async def delete(self) -> list[str]:
        """As in `VolumeData`, of all parts, in their order."""
        return [error for part in self._parts for error in await part.delete()]


class Snapshots:
    """The native and CSI snapshots of one backup, and the data that a data mover has copied elsewhere.

    Args:
        trusted: whether the administrator's own location holds the backup. A backup in a tenant's location
            has no snapshots: its files and its name are the tenant's choice. (docs/spec: NAC A15, A35)
        known: the volumes by the files of the backup, if they were read already.
    """

    def __init__(
        self,
        context: RunContext,
        backup: str,
        *,
        trusted: bool = True,
        known: Sequence[SavedVolume] | None = None,
    ) -> None:
        self._context = context
        self._snapshotters = snapshotters_of(context)
        self._backup = backup
        self._trusted = trusted
        self._known = known
        self._problems: dict[str, str] = {}

    async def obstacles(self) -> list[str]:
        found: list[str] = []
        problems, has_kinds = self._problems, self._kinds() is not None
        for volume in await self._volumes():
            match volume.record:
                case VolumeSnapshot(spec=spec):
                    if spec.location not in problems:
                        problems[spec.location] = await self._problem(spec.location)
                    if problems[spec.location]:
                        found.append(f"{volume} ({problems[spec.location]})")
                case StoredSnapshot():
                    if not has_kinds:
                        found.append(f"{volume} ({self._no_kinds()})")
                case _:
                    if volume.place == Place.ELSEWHERE and volume.way == Way.MOVED:
                        found.append(str(volume))
        return found

    async def delete(self) -> list[str]:
        records = [volume.record for volume in await self._volumes()]
        native = [each for each in records if isinstance(each, VolumeSnapshot)]
        # `obstacles` has named the others: an error here would be a second one for the same.
        deletable = [each for each in native if not self._problems.get(each.spec.location)]
        errors = await delete_snapshots(deletable, self._snapshotters)
        kinds = self._kinds()
        if kinds is None:
            return errors
        client, namespace = self._context.client, self._context.namespace
        of_csi = [each for each in records if isinstance(each, StoredSnapshot)]
        return errors + await delete_csi_snapshots(
            client, kinds, of_csi, backup=self._backup, namespace=namespace
        )

    async def _problem(self, location: str) -> str:
        try:
            await self._snapshotters.of(location)
        except SnapshotError as error:
            return str(error)
        return ""

    async def _volumes(self) -> Sequence[SavedVolume]:
        """The volumes by the files of the backup; read once, as the tarball may be among them."""
        if not self._trusted:
            return ()
        context = self._context
        if self._known is None:
            self._known = await read_deletable(context.store, self._backup, context.workdir)
        return self._known

    def _kinds(self) -> SnapshotKinds | None:
        if not self._trusted or FEATURE not in self._context.features:
            return None
        return SnapshotKinds.served(self._context.discovery)

    def _no_kinds(self) -> str:
        if FEATURE not in self._context.features:
            return f"start the server with --features {FEATURE}"
        return "the cluster does not serve VolumeSnapshotContents"


def summary(named: Sequence[object]) -> str:
    """The first of many names, and how many more there are."""
    return first_names([str(each) for each in named], _NAMED)
