"""Which restic snapshots go with a backup, and what becomes of failures."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.controllers.shared.pod_volumes import PodVolumes
from pinnace.storage.backup_files import BackupFiles
from pinnace.volumes.repositories import Repositories
from pinnace.volumes.restic.commands import forget
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.locks import RepositoryLocks
from tests.unit.controllers.fakes import NAMESPACE, World

BACKUP = Backup(
    metadata=ObjectMeta(name="b1", namespace=NAMESPACE, uid="u1"),
    spec=BackupSpec(storage_location="default"),
)


class Forgetting:
    """Attributes:
    forgotten: repository and snapshot of each call.
    fails: snapshots that cannot be forgotten.
    gone: namespaces of whose repository nothing is left.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.forgotten: list[tuple[str, str]] = []
        self.fails: set[str] = set()
        self.gone: set[str] = set()
        repositories = Repositories(world.cluster.client, NAMESPACE)
        self.work = PodVolumes(world.scope, self, repositories, RepositoryLocks())
        self.stored: list[dict[str, Any]] = []

    async def forget(self, repository: Repository, snapshot: str) -> None:
        forget(snapshot)  # refuses what is no id, as restic's client does
        self.forgotten.append((repository.identifier, snapshot))
        if snapshot in self.fails:
            raise UploaderError("no way")

    async def is_gone(self, repository: Repository) -> bool:
        return repository.namespace in self.gone

    def repository(self, namespace: str, phase: str = "Ready") -> None:
        marks = {labels.VOLUME_NAMESPACE: namespace, labels.STORAGE_LOCATION: "default"}
        spec = {
            "volumeNamespace": namespace,
            "backupStorageLocation": "default",
            "resticIdentifier": f"id/{namespace}",
            "maintenanceFrequency": "1h0m0s",
        }
        status = {"phase": phase, "message": "m"}
        self.world.cluster.add("backuprepositories", namespace, labels=marks, spec=spec, status=status)

    def saved(self, name: str, snapshot: str, *, backup: str = "b1", namespace: str = "shop") -> None:
        self.world.cluster.add(
            "podvolumebackups",
            name,
            labels={labels.BACKUP_NAME: backup},
            spec={"pod": {"namespace": namespace}, "repoIdentifier": f"s3:x/{namespace}"},
            status={"snapshotID": snapshot},
        )

    async def run(self) -> list[str]:
        async with self.world.locations.open("default") as store:
            contents = self.world.folder / "contents.tar.gz"
            contents.write_bytes(b"tarball")
            files = BackupFiles(name="b1", metadata=b"{}", contents=contents, pod_volume_backups=self.stored)
            await store.put_backup(files)
            return await self.work.forget(BACKUP, store)


@pytest.fixture
def forgetting(world: World) -> Forgetting:
    world.add_location()
    Path(world.folder / "bucket-default").mkdir(exist_ok=True)
    made = Forgetting(world)
    made.repository("shop")
    return made


@pytest.mark.spec("PVL-070")
async def test_the_snapshots_of_the_backup_and_no_others_are_forgotten(forgetting: Forgetting) -> None:
    forgetting.repository("bank")
    forgetting.saved("one", "11111111")
    forgetting.saved("two", "22222222", namespace="bank")
    forgetting.saved("empty", "")
    forgetting.saved("other", "33333333", backup="b2")
    forgetting.saved("another", "44444444", backup="b3")

    assert await forgetting.run() == []

    assert forgetting.forgotten == [("id/shop", "11111111"), ("id/bank", "22222222")]


async def test_snapshots_that_only_the_location_knows_are_forgotten_too(forgetting: Forgetting) -> None:
    forgetting.saved("one", "11111111")
    for snapshot in ("11111111", "55555555"):
        spec = {"pod": {"namespace": "shop"}, "repoIdentifier": "s3:x/shop"}
        forgetting.stored.append({"spec": spec, "status": {"snapshotID": snapshot}})

    assert await forgetting.run() == []

    assert [snapshot for _, snapshot in forgetting.forgotten] == ["11111111", "55555555"]


@pytest.mark.spec("PVL-072")
async def test_after_a_failure_the_others_are_still_tried(forgetting: Forgetting) -> None:
    forgetting.repository("bank", "NotReady")
    forgetting.saved("one", "11111111")
    forgetting.saved("two", "22222222", namespace="bank")
    forgetting.saved("three", "33333333")
    forgetting.fails = {"11111111"}

    errors = await forgetting.run()

    assert errors == [
        "error deleting restic snapshot 11111111: no way",
        "error deleting restic snapshot 22222222: restic repository is not ready: m",
    ]
    assert [snapshot for _, snapshot in forgetting.forgotten] == ["11111111", "33333333"]


async def test_an_invalid_snapshot_id_does_not_keep_a_backup_for_ever(forgetting: Forgetting) -> None:
    forgetting.saved("one", "--option")

    assert await forgetting.run() == []
    assert forgetting.forgotten == []


async def test_a_snapshot_of_no_namespace_is_an_error(forgetting: Forgetting) -> None:
    forgetting.stored.append({"spec": {"uploaderType": "restic"}, "status": {"snapshotID": "11111111"}})

    assert await forgetting.run() == [
        "error deleting restic snapshot 11111111: the namespace of its volume is not known"
    ]


@pytest.mark.found("V28")
async def test_a_repository_of_which_nothing_is_left_is_no_obstacle(forgetting: Forgetting) -> None:
    forgetting.repository("bank", "NotReady")
    forgetting.saved("one", "11111111")
    forgetting.saved("two", "22222222", namespace="bank")
    forgetting.gone = {"bank"}

    assert await forgetting.run() == []
    assert forgetting.forgotten == [("id/shop", "11111111")]
