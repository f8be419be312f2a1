"""Volume data in buckets of real Velero: restored, or an error for each volume; deleted, or refused."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import PODS
from tests.e2e.without_server.command import Pinnace
from tests.support.cluster.namespaces import erase_namespace
from tests.support.stores.golden import files_of, unpack

PASSWORD = "static-passw0rd"


class Bucket:
    """A bucket as a location, and the commands that use it."""

    def __init__(self, folder: Path, version: str, kubeconfig: Path) -> None:
        self.path = unpack(version, folder)
        work = folder / "work"
        work.mkdir()
        programs = binaries.locate(binaries.UPLOADER)["kopia"].parent
        environ = {"PATH": f"{programs}:{os.environ['PATH']}"}
        self.run = Pinnace(work, kubeconfig=kubeconfig, location=str(self.path), secrets=(), environ=environ)


@pytest.fixture
async def target(control_plane: ControlPlane, client: KubeClient, namespace: str) -> AsyncIterator[str]:
    """The name of a namespace that a restore may make."""
    name = f"{namespace}-files"
    yield name
    await erase_namespace(control_plane, client, name)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.16.2", "it was saved with kopia (snapshot b0a1e521b631435bcfa1c614dd259b9d)"),
        ("1.6.3", "it was saved with restic (snapshot "),
    ],
)
async def test_without_a_server_a_pod_volume_is_an_error_and_the_bucket_stays_as_it_is(
    tmp_path: Path, control_plane: ControlPlane, client: KubeClient, target: str, version: str, reason: str
) -> None:
    bucket = Bucket(tmp_path, version, control_plane.kubeconfig)
    before = files_of(bucket.path)
    create = ("restore", "create", "--from-backup", "files", "--namespace-mappings", f"files:{target}")

    made = await bucket.run(*create, "r1")

    assert made.code == 3, made.out + made.err
    described = await bucket.run("restore", "describe", "r1")
    assert "the data of volume data is not restored" in described.out
    assert reason in described.out
    assert await client.list_all(PODS, target) == []
    after = files_of(bucket.path)
    assert {name for name in after if not name.startswith("restores/r1/")} == set(before)

    empty = await bucket.run(*create, "r2", "--without-volume-data")

    assert empty.code == 0, empty.out + empty.err
    (pod,) = await client.list_all(PODS, target)
    names = [each["name"] for each in pod["spec"].get("initContainers", [])]
    assert "restic-wait" not in names


async def test_kopia_data_in_a_copy_of_a_bucket_is_left_behind_by_force_only(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    bucket = Bucket(tmp_path, "1.16.2", control_plane.kubeconfig)
    before = files_of(bucket.path)

    password = tmp_path / "password"
    await asyncio.to_thread(password.write_text, PASSWORD)
    delete = ("backup", "delete", "files", "--confirm", "--restic-password-file", str(password))

    refused = await bucket.run(*delete)

    assert refused.code == 1
    assert "kopia snapshot b0a1e521b631435bcfa1c614dd259b9d" in refused.err
    assert "was copied out of a bucket" in refused.err
    assert files_of(bucket.path) == before

    forced = await bucket.run(*delete, "--force")

    assert (forced.code, forced.out) == (0, 'Backup "files" deleted\n')
    assert "left behind" in forced.err
    after = files_of(bucket.path)
    assert {name for name in before if name not in after} == {
        name for name in before if name.startswith("backups/files/")
    }


@pytest.mark.spec("AFT-176")
async def test_deleting_a_backup_forgets_its_restic_snapshots(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    assert shutil.which("restic") is not None
    bucket = Bucket(tmp_path, "1.6.3", control_plane.kubeconfig)
    repository = bucket.path / "restic/files"
    before = len(list((repository / "snapshots").iterdir()))

    refused = await bucket.run("--namespace", "nowhere", "backup", "delete", "files", "--confirm")

    assert refused.code == 1
    assert "the password is not known: give --restic-password-file" in refused.err
    assert (bucket.path / "backups/files/velero-backup.json").exists()
    password = tmp_path / "password"
    await asyncio.to_thread(password.write_text, f"{PASSWORD}\n")

    deleted = await bucket.run(
        "backup", "delete", "files", "--confirm", "--restic-password-file", str(password)
    )

    assert (deleted.code, deleted.out) == (0, 'Backup "files" deleted\n'), deleted.err
    assert len(list((repository / "snapshots").iterdir())) == before - 1
    assert not (bucket.path / "backups/files").exists()


@pytest.mark.found("V28")
@pytest.mark.parametrize("left", [(), ("config",), ("config", "keys", "data")], ids=len)
async def test_a_backup_whose_repository_is_gone_is_deleted_unless_something_of_it_is_left(
    tmp_path: Path, control_plane: ControlPlane, left: Sequence[str]
) -> None:
    bucket = Bucket(tmp_path, "1.6.3", control_plane.kubeconfig)
    repository = bucket.path / "restic/files"
    await asyncio.to_thread(_take_away, repository, left)
    password = tmp_path / "password"
    await asyncio.to_thread(password.write_text, f"{PASSWORD}\n")

    deleted = await bucket.run(
        "backup", "delete", "files", "--confirm", "--restic-password-file", str(password)
    )

    if left:
        assert deleted.code == 1
        assert "Is there a repository at the following location?" in deleted.err
    else:
        assert (deleted.code, deleted.out) == (0, 'Backup "files" deleted\n'), deleted.err
        assert "nothing of its repository is left in the location" in deleted.err
    assert (bucket.path / "backups/files/velero-backup.json").exists() is bool(left)


def _take_away(repository: Path, parts: Sequence[str]) -> None:
    """Remove parts of a repository; without any, all of it."""
    for path in [repository / part for part in parts] or [repository]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


async def test_a_backup_of_1_18_without_volumes_is_deleted(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    bucket = Bucket(tmp_path, "1.18.0", control_plane.kubeconfig)

    deleted = await bucket.run("backup", "delete", "everything", "--confirm")

    assert (deleted.code, deleted.out) == (0, 'Backup "everything" deleted\n'), deleted.err
    assert not (bucket.path / "backups/everything").exists()
