"""ResticRepositories of an old Velero become BackupRepositories, once, and lose nothing."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.controllers.former_repositories import move_former_repositories
from tests.unit.controllers.fakes import World, fail_once

SPEC = {
    "volumeNamespace": "shop",
    "backupStorageLocation": "default",
    "resticIdentifier": "s3:b/restic/shop",
    "maintenanceFrequency": "168h0m0s",
    "ofTheFuture": {"a": 1},
}
STATUS = {"phase": "Ready", "lastMaintenanceTime": "2021-08-11T21:43:26Z"}
LABELS = {"velero.io/volume-namespace": "shop", "velero.io/storage-location": "default"}


@pytest.fixture
def former(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.cluster.add("resticrepositories", "shop-default-x7k2p", labels=LABELS, spec=SPEC, status=STATUS)
    return world


def of(world: World, plural: str) -> list[dict[str, Any]]:
    return world.cluster.of(plural)


async def test_name_labels_spec_and_status_are_kept_and_the_type_is_added(former: World) -> None:
    await move_former_repositories(former.scope)

    assert of(former, "resticrepositories") == []
    (moved,) = of(former, "backuprepositories")
    assert (moved["kind"], moved["metadata"]["name"]) == ("BackupRepository", "shop-default-x7k2p")
    assert moved["metadata"]["labels"] == {**LABELS, "velero.io/repository-type": "restic"}
    assert moved["spec"] == {**SPEC, "repositoryType": "restic"}
    assert moved["status"] == STATUS


async def test_the_object_of_a_later_velero_for_the_same_repository_stays(former: World) -> None:
    spec = {**SPEC, "resticIdentifier": "other"}
    former.cluster.add("backuprepositories", "shop-default-restic", labels=LABELS, spec=spec)

    await move_former_repositories(former.scope)

    assert of(former, "resticrepositories") == []
    assert [obj["spec"] for obj in of(former, "backuprepositories")] == [spec]


async def test_a_kopia_repository_of_the_namespace_is_another_one(former: World) -> None:
    spec = {**SPEC, "repositoryType": "kopia", "resticIdentifier": ""}
    former.cluster.add("backuprepositories", "shop-default-kopia", labels=LABELS, spec=spec)

    await move_former_repositories(former.scope)

    types = sorted(obj["spec"]["repositoryType"] for obj in of(former, "backuprepositories"))
    assert types == ["kopia", "restic"]


async def test_a_move_that_a_dead_server_began_is_completed(former: World) -> None:
    former.cluster.before = fail_once("delete", "resticrepositories")
    await move_former_repositories(former.scope)
    assert len(of(former, "resticrepositories")) == len(of(former, "backuprepositories")) == 1

    await move_former_repositories(former.scope)

    assert of(former, "resticrepositories") == []
    assert len(of(former, "backuprepositories")) == 1
