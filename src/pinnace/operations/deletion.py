"""Deleting what a backup has outside of its files: snapshots and pod volumes. (docs/adr/021, CTL 6.2, 6.5)"""

from collections.abc import Sequence
from typing import Final, Protocol

from pinnace.csi.objects import delete_csi_snapshots
from pinnace.csi.snapshots import FEATURE, SnapshotKinds
from pinnace.csi.stored_data import StoredVolumeData, read_volume_data
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
    """The native and CSI snapshots of one backup, and what a data mover has copied.

    Args:
        trusted: whether the administrator's own location holds the backup. A backup in a tenant's location
            has no snapshots: its files and its name are the tenant's choice. (docs/spec: NAC A15, A35)
        known: the volume data by the files of the backup, if they were read already.
    """

    def __init__(
        self, context: RunContext, backup: str, *, trusted: bool = True, known: StoredVolumeData | None = None
    ) -> None:
        self._context = context
        self._snapshotters = snapshotters_of(context)
        self._backup = backup
        self._trusted = trusted
        self._known = known
        self._problems: dict[str, str] = {}

    async def obstacles(self) -> list[str]:
        found: list[str] = []
        problems = self._problems
        data = await self._data()
        for record in data.native:
            location = record.spec.location
            if location not in problems:
                problems[location] = await self._problem(location)
            if problems[location]:
                found.append(f"volume snapshot {record.status.provider_snapshot_id} ({problems[location]})")
        if data.csi and self._kinds() is None:
            found += [f"{snapshot} ({self._no_kinds()})" for snapshot in data.csi]
        return [*found, *(f"moved data of {each}" for each in data.moved)]

    async def delete(self) -> list[str]:
        data = await self._data()
        # `obstacles` has named the others: an error here would be a second one for the same.
        deletable = [each for each in data.native if not self._problems.get(each.spec.location)]
        errors = await delete_snapshots(deletable, self._snapshotters)
        kinds = self._kinds()
        if kinds is None:
            return errors
        client, namespace = self._context.client, self._context.namespace
        return errors + await delete_csi_snapshots(
            client, kinds, data.csi, backup=self._backup, namespace=namespace
        )

    async def _problem(self, location: str) -> str:
        try:
            await self._snapshotters.of(location)
        except SnapshotError as error:
            return str(error)
        return ""

    async def _data(self) -> StoredVolumeData:
        """The volume data by the files of the backup; read once, as the tarball may be among them."""
        if not self._trusted:
            return StoredVolumeData()
        context = self._context
        if self._known is None:
            self._known = await read_volume_data(context.store, self._backup, context.workdir)
        return self._known

    def _kinds(self) -> SnapshotKinds | None:
        if not self._trusted or FEATURE not in self._context.features:
            return None
        return SnapshotKinds.served(self._context.discovery)

    def _no_kinds(self) -> str:
        if FEATURE not in self._context.features:
            return f"start the server with --features {FEATURE}"
        return "the cluster does not serve VolumeSnapshotContents"


def summary(named: Sequence[str]) -> str:
    """The first of many names, and how many more there are."""
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{more}"
