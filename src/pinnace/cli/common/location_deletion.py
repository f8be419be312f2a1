"""Deletes the files of backups and restores in a location, without a server. (docs/spec: CLI 4.4, 5.2)"""

from collections.abc import Awaitable, Callable

from pinnace.api.objects import JSONObject
from pinnace.api.retention.holds import refusal
from pinnace.api.retention.removal import RemovalReason
from pinnace.api.values.counts import counted
from pinnace.cli.common.holds import hold_in_location
from pinnace.cli.errors import CommandError
from pinnace.cli.kinds import BACKUP, PrintedKind
from pinnace.cli.output.summary import summary_of
from pinnace.client.errors import ClientError
from pinnace.client.location import LocationBackend, backup_of_restore
from pinnace.storage.errors import BackupBeingWritten, BackupHeld, StorageError

DeleteVolumeData = Callable[[LocationBackend, str], Awaitable[None]]
"""Deletes the volume data of a backup, by name; raises CommandError if the backup must stay."""


class LocationDeleter:
    """Deletes the files of one kind, by directory: damaged and unfinished backups can be deleted too."""

    def __init__(
        self,
        backend: LocationBackend,
        kind: PrintedKind,
        *,
        delete_volume_data: DeleteVolumeData,
        reason: RemovalReason,
    ) -> None:
        self._backend = backend
        self._kind = kind
        self._delete_volume_data = delete_volume_data
        self._reason = reason
        self._restores: dict[str, str | None] | None = None

    async def named(self, name: str) -> JSONObject:
        if name not in await self._backend.names(self._kind.plural):
            raise await self._backend.not_found(self._kind.plural, name)
        return {"metadata": {"name": name}}

    async def matching(self, selector: str) -> list[JSONObject]:
        if selector or self._kind != BACKUP:
            return await self._backend.objects(self._kind.plural, selector)
        # Without its metadata file, a backup may be in progress in another process.
        names, store = await self._backend.names(self._kind.plural), self._backend.store
        return [{"metadata": {"name": name}} for name in names if await store.exists(name)]

    async def summary(self, obj: JSONObject) -> str:
        name = obj["metadata"]["name"]
        try:
            stored = await self._backend.object(self._kind.plural, name)
        except (ClientError, StorageError):
            return f"{self._kind.noun} {name} (damaged or unfinished: its metadata cannot be read)"
        more = []
        if self._kind == BACKUP:
            restores = sum(1 for of in (await self._backups_of_restores()).values() if of == name)
            more += [counted(restores, "restore")] if restores else []
            try:
                volumes = await self._backend.volumes_of(name)
            except StorageError:
                volumes = []
            more += [counted(len(volumes), "pod volume backup")] if volumes else []
        return summary_of(stored, self._kind, *more)

    async def delete(self, obj: JSONObject) -> str:
        name, store = obj["metadata"]["name"], self._backend.store
        if self._kind != BACKUP:
            await store.delete_restore(name)
            return self._kind.deleted
        if await store.exists(name):
            return await self._delete_backup(name)
        # Unfinished: of a process that died, or of one that is still at work.
        try:
            async with store.claim_of_backup(name):
                return await self._delete_backup(name)
        except BackupBeingWritten:
            writer = await store.writer_of_backup(name) or "another process"
            raise CommandError(
                f"backup {name} is being made by {writer}: delete it when that has ended"
            ) from None

    async def _delete_backup(self, name: str) -> str:
        store = self._backend.store
        if (reason := await hold_in_location(self._backend, name)) is not None:
            raise BackupHeld(refusal(name, reason))
        await store.check_deletable(name)
        # The volume data first: only the files of the backup tell where it is.
        await self._delete_volume_data(self._backend, name)
        for restore, backup in (await self._backups_of_restores()).items():
            if backup == name:
                await store.delete_restore(restore)
        await store.delete_backup(name, reason=self._reason)
        return 'Backup "{}" deleted'

    async def _backups_of_restores(self) -> dict[str, str | None]:
        """The backup of each restore in the location; None where it is unknown."""
        if self._restores is None:
            stored = await self._backend.objects("restores")
            found = {
                restore["metadata"]["name"]: (restore.get("spec") or {}).get("backupName")
                for restore in stored
            }
            for name in await self._backend.names("restores"):
                if name not in found:
                    found[name] = await backup_of_restore(self._backend.store, name)
            self._restores = found
        return self._restores
