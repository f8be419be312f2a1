"""Backups without a server: what is refused before anything is written, and that the others are stored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.kube.discovery import Discovery
from pinnace.kube.requesting import ServerVersion
from pinnace.operations.local import InvalidRun, LocalRun, NameTaken, make_backup
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store
from tests.support.cluster.discovered import documented_discovery, resource, served
from tests.support.cluster.scripted_cluster import ScriptedCluster

KINDS = documented_discovery(
    [
        served(
            "v1",
            resource("configmaps", "ConfigMap"),
            resource("namespaces", "Namespace", namespaced=False),
        )
    ],
    server_version=ServerVersion(git_version="v1.30.2", major="1", minor="30"),
)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ScriptedCluster:
    """A cluster with one ConfigMap in `shop`, which serves nothing else."""

    async def discover(_: LocalRun) -> Discovery:
        return KINDS

    monkeypatch.setattr(LocalRun, "discover", discover)
    cluster = ScriptedCluster()
    cluster.add("namespaces", "shop")
    cluster.add("configmaps", "settings", "shop", data={"a": "b"})
    return cluster


async def made(cluster: ScriptedCluster, folder: Path, name: str = "b1", **spec: Any) -> Backup:
    location = location_from_url(str(folder), namespace="velero")
    backup = Backup(metadata=ObjectMeta(name=name, namespace="velero"), spec=BackupSpec(**spec))
    async with open_backup_store(location, create=True) as store:
        return await make_backup(LocalRun(client=cluster.client, location=location, store=store), backup)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


async def test_a_backup_is_stored(cluster: ScriptedCluster, tmp_path: Path) -> None:
    finished = await made(cluster, tmp_path / "location", included_namespaces=["shop"])

    assert finished.status.phase == "Completed"
    assert finished.status.progress is not None
    assert finished.status.progress.items_backed_up == 2
    assert "backups/b1/velero-backup.json" in files(tmp_path / "location")


def _foreign(folder: Path) -> None:
    (folder / "photos").mkdir()
    (folder / "photos/a.jpg").touch()


def _taken(folder: Path) -> None:
    (folder / "backups/b1").mkdir(parents=True)
    (folder / "backups/b1/velero-backup.json").write_text("{}")


def _empty(folder: Path) -> None:
    """Nothing is there."""


@pytest.mark.parametrize(
    ("prepare", "name", "spec", "kind", "said"),
    [
        pytest.param(_empty, "B/1", {}, InvalidRun, "B/1", id="no name of an object"),
        pytest.param(_foreign, "b1", {}, InvalidRun, "photos.*name an empty folder", id="foreign files"),
        pytest.param(
            _empty,
            "b1",
            {"snapshot_move_data": True},
            InvalidRun,
            "the data of CSI snapshots is moved by a server",
            id="data to move",
        ),
        pytest.param(
            _empty, "b1", {"included_resources": ["pods"]}, InvalidRun, "pods", id="a kind that is not served"
        ),
        pytest.param(
            _empty,
            "b1",
            {"included_namespaces": ["shop"], "excluded_namespaces": ["shop"]},
            InvalidRun,
            "the backup is not valid",
            id="nothing to save",
        ),
        pytest.param(
            _taken, "b1", {}, NameTaken, "choose another name or delete it", id="a name that is taken"
        ),
    ],
)
async def test_a_backup_that_cannot_be_made_as_asked_writes_nothing(
    cluster: ScriptedCluster,
    tmp_path: Path,
    prepare: Callable[[Path], None],
    name: str,
    spec: dict[str, Any],
    kind: type[InvalidRun],
    said: str,
) -> None:
    prepare(tmp_path)
    before = files(tmp_path)

    with pytest.raises(kind, match=f"(?s){said}"):
        await made(cluster, tmp_path, name, **spec)

    assert files(tmp_path) == before
