"""Everything around one restore in tests of its runner: a store with faults, a cluster in a dict, a clock."""

import gzip
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson

from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import RestorePhase
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.restore import Restore, RestoreSpec, RestoreStatus
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.archive.paths import item_path
from pinnace.archive.writer import ArchiveWriter
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.kube.errors import Forbidden
from pinnace.notices.notice import OWN_PART
from pinnace.plugins.installed import NO_PLUGINS
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.restore.errors import RestoreFailed
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.runner import RestoreInputs, execute_restore
from pinnace.runs.context import ReopenedStore
from pinnace.storage.backup_files import BackupFiles
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from pinnace.storage.patience import Patience
from tests.support.clock import FakeClock
from tests.support.runs.context import run_context
from tests.support.runs.worker_slots import RecordedSlot
from tests.unit.restore.world import Numbers, discovery, key_of, world_of


class FaultyStore(BackupStore):
    """A store in which some things fail: by name of the method."""

    faults: dict[str, StorageError]

    def _maybe(self, method: str) -> None:
        if method in self.faults:
            raise self.faults[method]

    async def download_contents(self, backup: str, path: Path) -> int:
        self._maybe("download_contents")
        return await super().download_contents(backup, path)

    async def read_snapshots(self, backup: str) -> list[Any]:
        self._maybe("read_snapshots")
        return await super().read_snapshots(backup)

    async def put_restore_log(self, restore: str, log: Path) -> None:
        self._maybe("put_restore_log")
        await super().put_restore_log(restore, log)

    async def put_restore_results(self, restore: str, results: Mapping[str, Any]) -> None:
        self._maybe("put_restore_results")
        await super().put_restore_results(restore, results)


class Stage:
    """Everything around one restore."""

    def __init__(self, directory: Path) -> None:
        self.workdir = directory / "work"
        self.workdir.mkdir()
        self.store = FaultyStore(FilesystemStore(directory / "bucket"), Layout(""), location="default")
        self.store.faults = {}
        self.world = world_of()
        self.clock = FakeClock()
        self.numbers = Numbers()
        self.fail_actions = ""
        self.plugins = NO_PLUGINS
        self.fail_backups = False
        self.fail_reopening = False
        self.patience: Patience | None = None
        self.options = RestoreSettings()
        self.spec = RestoreSpec(backup_name="backup-1")
        self.slot = RecordedSlot()
        self.reopened: BackupStore | None = None
        self.moved = ""
        self._directory = directory

    async def put_backup(
        self,
        *items: dict[str, Any],
        contents: bytes | None = None,
        volume_infos: Sequence[BackupVolumeInfo] = (),
    ) -> None:
        path = self._directory / "contents.tar.gz"
        if contents is None:
            async with ArchiveWriter(path, clock=self.clock) as writer:
                for item in items:
                    kind, namespace, name = key_of(item)
                    writer.add(item_path(kind, None, namespace, name), orjson.dumps(item))
        else:
            path.write_bytes(contents)
        files = BackupFiles(name="backup-1", metadata=b"{}", contents=path, volume_infos=volume_infos)
        await self.store.put_backup(files)

    async def restore(self) -> Restore:
        status = RestoreStatus(phase=RestorePhase.IN_PROGRESS, start_timestamp=self.clock.now())
        metadata = ObjectMeta(name="restore-1", namespace="velero")
        restore = Restore(metadata=metadata, spec=self.spec, status=status)

        plugins = self.plugins.operation()

        async def actions(_saved: SavedPodVolumes) -> Sequence[RestoreItemAction]:
            if self.fail_actions:
                raise RestoreFailed(self.fail_actions)
            self.clock.turn(timedelta(minutes=1))
            return plugins.restore_actions

        async def pod_volumes(_infos: object) -> SavedPodVolumes:
            if self.fail_backups:
                raise Forbidden(403, message="you may not list")
            return SavedPodVolumes()

        async def reopen_store() -> ReopenedStore:
            if self.fail_reopening:
                raise StoreUnavailable("no answer")
            return ReopenedStore(self.reopened or self.store, self.moved)

        return await execute_restore(
            RestoreRequest(
                restore=restore, backup=Backup(metadata=ObjectMeta(name="backup-1"), status=BackupStatus())
            ),
            run_context(
                self.store,
                self.world,
                discovery(),
                self.workdir,
                reopen_store=reopen_store,
                progress=self.numbers.publish,
                clock=self.clock,
                plugins=plugins,
                worker_slot=self.slot,
                patience=self.patience,
            ),
            RestoreInputs(actions=actions, pod_volumes=pod_volumes, options=self.options),
        )

    async def log(self) -> str:
        async with self.store.read_bytes(DownloadTargetKind.RESTORE_LOG, "restore-1") as stream:
            return gzip.decompress(b"".join([chunk async for chunk in stream])).decode()

    async def results(self) -> Any:
        """The part of the results that Velero reads."""
        stored = await self.store.read_restore_results("restore-1")
        return {name: part for name, part in stored.items() if name != OWN_PART}
