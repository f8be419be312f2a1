"""`debug`: the content of the bundle, and what happens when a part of it cannot be read."""

import json
import stat
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.main import run
from pinnace.client.errors import FileMissing
from pinnace.client.interface import DownloadOptions
from pinnace.client.server import ServerBackend
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import DEPLOYMENTS, PODS, SECRETS, velero
from tests.unit.cli.cluster import BACKUP_LOCATIONS, ServedCluster, connected

SECRET = "hunter2hunter2"
BACKUPS, RESTORES = velero("backups"), velero("restores")
HOOKS = {"resources": [{"name": "h", "pre": [{"exec": {"command": ["mysql", f"-p{SECRET}"]}}]}]}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    """A server with a secret in each corner."""
    cluster = connected(monkeypatch, tmp_path)
    env = [{"name": "AWS_SECRET_ACCESS_KEY", "value": SECRET}]
    pod = {"containers": [{"name": "velero", "env": env}]}
    cluster.add(DEPLOYMENTS, "velero", labels={"component": "velero"}, spec={"template": {"spec": pod}})
    states = [{"name": "velero", "restartCount": 1}, {"name": "silent", "restartCount": 0}]
    init = [{"name": "plugin", "restartCount": 0}]
    cluster.add(
        PODS, "velero-0", spec=pod, status={"containerStatuses": states, "initContainerStatuses": init}
    )
    cluster.add(SECRETS, "cloud-credentials", data={"cloud": SECRET})
    cluster.add(BACKUP_LOCATIONS, "main", spec={"provider": "p", "config": {"accountKey": SECRET}})
    cluster.add(BACKUPS, "b", spec={"hooks": HOOKS}, status={"phase": "Completed", "errors": 1})
    cluster.add(RESTORES, "r", spec={"backupName": "b"}, status={"phase": "Completed", "warnings": 1})
    url = f"https://h/b?X-Amz-Signature={SECRET}"
    cluster.add(velero("downloadrequests"), "d", status={"downloadURL": url})
    cluster.logs = {
        ("velero-0", "velero", False): f"starting\npassword={SECRET}\n",
        ("velero-0", "velero", True): "it crashed\n",
        ("velero-0", "plugin", False): "copied\n",
    }
    return cluster


STORED: dict[tuple[DownloadTargetKind, str], bytes] = {
    (DownloadTargetKind.BACKUP_RESOURCE_LIST, "b"): b'{"v1/Pod": ["ns/p"]}',
    (DownloadTargetKind.BACKUP_LOG, "b"): f"a line\nAuthorization: Bearer {SECRET}\n".encode(),
    (DownloadTargetKind.RESTORE_RESULTS, "r"): b'{"warnings": {"velero": ["w0"]}, "errors": {}}',
    (DownloadTargetKind.RESTORE_LOG, "r"): b"restored\n",
}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[DownloadTargetKind, str], bytes]:
    """The files that a server would give out."""
    stored = dict(STORED)

    @asynccontextmanager
    async def stored_file(
        _self: ServerBackend, kind: DownloadTargetKind, name: str, _options: DownloadOptions
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        if (kind, name) not in stored:
            raise FileMissing("file not found")

        async def chunks() -> AsyncIterator[bytes]:
            yield stored[kind, name]

        yield chunks()

    monkeypatch.setattr(ServerBackend, "stored_file", stored_file)
    return stored


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        assert all(member.isfile() and member.name.startswith("bundle/") for member in members)
        files = {member.name.removeprefix("bundle/"): archive.extractfile(member) for member in members}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def bundle(tmp_path: Path, *words: str) -> dict[str, str]:
    """The files of a bundle that is made with these words."""
    path = tmp_path / "bundle.tar.gz"
    assert run(["debug", "--output", str(path), *words]) == 0
    return contents(path)


@pytest.mark.spec("BEY-072")
def test_a_bundle_has_versions_objects_and_logs(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, tmp_path: Path
) -> None:
    files = bundle(tmp_path)

    assert {name for name in files if not name.startswith("objects/")} == {
        "version.txt",
        "logs/velero-0/velero.log",
        "logs/velero-0/velero.previous.log",
        "logs/velero-0/plugin.log",
        "problems.txt",
    }
    assert "Cluster: v1.30.2\nServer: v1.6.3\n" in files["version.txt"]
    assert json.loads(files["objects/backups.json"])[0]["metadata"]["name"] == "b"
    assert json.loads(files["objects/schedules.json"]) == []
    assert {"objects/deployments.json", "objects/pods.json", "objects/events.json"} < set(files)
    assert files["logs/velero-0/velero.previous.log"] == "it crashed\n"
    assert files["problems.txt"] == "log velero-0/silent.log: previous terminated container not found\n"
    shown = capsys.readouterr()
    assert shown.out.startswith(f"Wrote {tmp_path}/bundle.tar.gz with {len(files)} files.")
    assert shown.err == f"WARNING: {files['problems.txt']}"
    assert stat.S_IMODE((tmp_path / "bundle.tar.gz").stat().st_mode) == 0o600


@pytest.mark.usefixtures("store")
def test_a_bundle_has_no_secrets(cluster: ServedCluster, tmp_path: Path) -> None:
    files = bundle(tmp_path, "--backup", "b", "--restore", "r")

    assert SECRET in str(cluster.objects)
    assert {name for name, text in files.items() if SECRET in text} == set()
    assert "objects/secrets.json" not in files
    assert "password=<redacted>" in files["logs/velero-0/velero.log"]
    assert "Command:    mysql <redacted>" in files["backup_describe_b.txt"]


@pytest.mark.usefixtures("store")
def test_a_named_backup_and_restore_are_in_the_bundle(cluster: ServedCluster, tmp_path: Path) -> None:
    files = bundle(tmp_path, "--backup", "b", "--restore", "r")

    assert "Resource List:\n  v1/Pod:\n    - ns/p" in files["backup_describe_b.txt"]
    assert files["backup_b.log"].startswith("a line\n")
    assert "Warnings:\n  Velero:   w0\n" in files["restore_describe_r.txt"]
    assert files["restore_r.log"] == "restored\n"


def test_files_that_the_store_lacks_are_reported(
    cluster: ServedCluster, tmp_path: Path, store: dict[tuple[DownloadTargetKind, str], bytes]
) -> None:
    del store[DownloadTargetKind.BACKUP_LOG, "b"]
    store[DownloadTargetKind.BACKUP_RESOURCE_LIST, "b"] = b"{"

    files = bundle(tmp_path, "--backup", "b")

    assert "backup_b.log" not in files
    assert "Resource List:  <not available>" in files["backup_describe_b.txt"]
    assert "log of b: file not found\n" in files["problems.txt"]
    assert "resource list of b: " in files["problems.txt"]


@pytest.mark.spec("BEY-072")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--backup", "missing"], 'backups.velero.io "missing" not found'),
        (["--restore", "missing"], 'restores.velero.io "missing" not found; namespace velero has '),
        (["-n", "elsewhere"], "no server found in namespace elsewhere"),
    ],
)
def test_a_missing_object_or_server_is_an_error(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, tmp_path: Path, words: list[str], text: str
) -> None:
    assert run(["debug", "--output", str(tmp_path / "bundle.tar.gz"), *words]) == 1

    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_server_outside_of_the_cluster_needs_no_deployment(cluster: ServedCluster, tmp_path: Path) -> None:
    del cluster.objects["deployments.apps", "velero", "velero"]
    assert "version.txt" in bundle(tmp_path)


def test_forbidden_parts_are_reported_and_left_out(cluster: ServedCluster, tmp_path: Path) -> None:
    forbidden = Forbidden(403, reason="Forbidden", message="you may not")
    cluster.refuse("list", "events", forbidden)
    cluster.refuse("list", "pods", forbidden)
    cluster.refuse("create", "serverstatusrequests", forbidden)

    files = bundle(tmp_path)

    assert files["problems.txt"].splitlines() == [
        "the server's version: you may not",
        "pods: you may not",
        "events: you may not",
        "pods with logs: you may not",
    ]
    assert "objects/backups.json" in files


def test_a_server_that_does_not_answer_is_reported(
    cluster: ServedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pinnace.cli.debug import collect as debug_collect

    monkeypatch.setattr(debug_collect, "STATUS_TIMEOUT_SECONDS", 0.001)
    cluster.plugins = None
    files = bundle(tmp_path)

    assert "the server did not answer within 0.001s" in files["problems.txt"]
    assert "Server:" not in files["version.txt"]


def test_the_file_is_named_by_the_time_and_never_overwritten(
    capsys: pytest.CaptureFixture[str],
    cluster: ServedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["debug", "--verbose"]) == 0
    (path,) = tmp_path.glob("bundle-????-??-??-??-??-??.tar.gz")
    assert "Collecting log velero-0/velero.log\n" in capsys.readouterr().err

    before = path.read_bytes()
    assert run(["debug", "--output", path.name]) == 1
    assert capsys.readouterr().err == f"An error occurred: open {path}: file exists\n"
    assert path.read_bytes() == before
    assert run(["debug", "--output", "no/such/folder.tar.gz"]) == 1
    assert "No such file or directory" in capsys.readouterr().err


def test_debug_refuses_a_location(capsys: pytest.CaptureFixture[str], cluster: ServedCluster) -> None:
    assert run(["--location", "./backups", "debug"]) == 2
    assert "`debug` works on a server in the cluster" in capsys.readouterr().err


def test_a_failed_bundle_leaves_no_file(
    cluster: ServedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "addfile", broken)
    assert run(["debug", "--output", str(tmp_path / "bundle.tar.gz")]) == 1
    assert list(tmp_path.iterdir()) == []
