"""A backup's runner with collaborators of its tests."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.archive.runlog import RunLog
from pinnace.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
)
from pinnace.storage.backup_files import BackupFiles
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.backup_writing import KeepKey
from pinnace.storage.errors import StorageError
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from pinnace.storage.patience import Patience, impatient
from pinnace.storage.writer_claim import WriterClaim
from tests.support.clock import START
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.backup.fakes import (
    a_backup,
    thing,
    two_a_page,
)


def pod(key: str, *claims: str, **fields: Any) -> JSONObject:
    """A running pod with a volume `vol-<claim>` for each claim."""
    namespace, _, name = key.rpartition("/")
    volumes = [{"name": f"vol-{claim}", "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    rest = {"spec": {"volumes": volumes}, "status": {"phase": "Running"}, **fields}
    return thing(PODS, name, namespace, **rest)


def claim(key: str, volume: str) -> JSONObject:
    namespace, _, name = key.rpartition("/")
    rest: JSONObject = {"spec": {"volumeName": volume}, "status": {"phase": "Bound"}}
    return thing(PERSISTENT_VOLUME_CLAIMS, name, namespace, **rest)


def volume(name: str, key: str) -> JSONObject:
    namespace, _, claim_name = key.rpartition("/")
    rest: JSONObject = {"spec": {"claimRef": {"namespace": namespace, "name": claim_name}}}
    return thing(PERSISTENT_VOLUMES, name, **rest)


def bound_pod() -> ScriptedCluster:
    """Pod ns/p with claim ns/c bound to pv."""
    cluster = (
        two_a_page().put_all(PODS, pod("ns/p", "c")).put_all(PERSISTENT_VOLUME_CLAIMS, claim("ns/c", "pv"))
    )
    return cluster.put_all(PERSISTENT_VOLUMES, volume("pv", "ns/c"))


class FakeSnapshots:
    """Records the volumes that it is asked to snapshot."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = errors
        self.taken: list[str] = []
        self.snapshots: Sequence[VolumeSnapshot] = ()

    async def snapshot(self, volume: JSONObject, log: RunLog) -> Sequence[Exception]:
        self.taken.append(volume["metadata"]["name"])
        return self.errors


class Store(BackupStore):
    """A store in a directory that fails on request."""

    def __init__(self, root: Path) -> None:
        super().__init__(FilesystemStore(root), Layout(""), location="default")
        self.root = root
        self.exists_error: StorageError | None = None
        self.put_error: StorageError | None = None
        self.closed = False

    async def exists(self, backup: str) -> bool:
        if self.exists_error is not None:
            raise self.exists_error
        return await super().exists(backup)

    async def put_backup(
        self,
        files: BackupFiles,
        *,
        sent: Callable[[int], None] | None = None,
        patience: Patience | None = None,
        claim: WriterClaim | None = None,
        keep_key: KeepKey | None = None,
    ) -> None:
        async def check() -> None:
            if self.put_error is not None:
                raise self.put_error

        await (patience or impatient()).insist(check)
        await super().put_backup(files, sent=sent, patience=patience, claim=claim, keep_key=keep_key)

    async def close(self) -> None:
        self.closed = True
        await super().close()

    def stored(self) -> list[str]:
        return sorted(path.name for path in (self.root / "backups").rglob("*") if path.is_file())

    def metadata(self) -> JSONObject:
        loaded: JSONObject = json.loads(self.file("velero-backup.json").read_bytes())
        return loaded

    def unpacked(self, name: str) -> Any:
        return json.loads(gzip.decompress(self.file(name).read_bytes()))

    def file(self, name: str) -> Path:
        """A file of the backup, where it is parked as long as the backup waits for operations."""
        directory = self.root / "backups/b1"
        finished = (directory / "velero-backup.json").exists()
        return directory / name if finished else directory / "pinnace-parked" / name


def prepared(**spec: Any) -> Backup:
    backup = a_backup(**spec)
    backup.status = BackupStatus(phase=BackupPhase.IN_PROGRESS, start_timestamp=START)
    return backup
