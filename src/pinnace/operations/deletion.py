"""Deleting what a backup has outside of its files: native and CSI snapshots. (docs/spec: CTL 6.2, 6.5)"""

from pinnace.api.backup import Backup
from pinnace.context import RunContext
from pinnace.csi.objects import delete_csi_snapshots
from pinnace.csi.snapshots import FEATURE, SnapshotKinds
from pinnace.csi.stored_data import StoredVolumeData, read_volume_data
from pinnace.operations.snapshots import snapshotters_of
from pinnace.volumes.snapshots_restore import delete_snapshots
from pinnace.volumes.snapshotters import SnapshotError


class SnapshotDeletion:
    """The snapshots of one backup that is to be deleted.

    Args:
        trusted: whether the administrator's own location holds the backup. A backup in a tenant's has none,
            and what its files and its name stand for is the tenant's choice. (docs/spec: NAC A15, A35)
    """

    def __init__(self, context: RunContext, backup: Backup, *, trusted: bool) -> None:
        self._context = context
        self._snapshotters = snapshotters_of(context)
        self._backup = backup.metadata.name
        self._trusted = trusted
        self._known: StoredVolumeData | None = None

    async def obstacles(self) -> list[str]:
        """The snapshots that this server cannot delete, each with the reason; nothing is touched.

        Raises:
            StorageError, KubeError: they cannot be listed now.
            ArchiveError: the tarball, which alone names some, is damaged.
        """
        found: list[str] = []
        problems: dict[str, str] = {}
        data = await self._data()
        for record in data.native:
            location = record.spec.location
            if location not in problems:
                problems[location] = await self._problem(location)
            if problems[location]:
                found.append(f"volume snapshot {record.status.provider_snapshot_id} ({problems[location]})")
        if data.csi and self._kinds() is None:
            reason = f"start the server with --features {FEATURE}"
            found += [f"{snapshot} ({reason})" for snapshot in data.csi]
        return [*found, *(f"moved data of {each}" for each in data.moved)]

    async def delete(self) -> list[str]:
        """Delete them; what went wrong. Doing it twice is harmless. (docs/spec: CTL 6.2, 6.5)

        Raises:
            StorageError, KubeError: they cannot be listed now.
        """
        data = await self._data()
        errors = await delete_snapshots(data.native, self._snapshotters)
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
        """What the files of the backup tell; read once, as the tarball may be among them."""
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
