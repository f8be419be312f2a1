"""`backup describe --details` when its files cannot be read."""

from pathlib import Path

import pytest

from pinnace.cli.main import run
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import BACKUPS
from tests.support.stores.indexed_backups import config_map, store
from tests.unit.cli.cluster import connected


def test_a_backup_is_described_to_a_user_who_may_not_download_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = connected(monkeypatch, tmp_path)
    status = {"phase": "Completed", "volumeSnapshotsAttempted": 1, "warnings": 1}
    cluster.add(BACKUPS, "b", spec={}, status=status)
    cluster.refuse("create", "downloadrequests", Forbidden(403, reason="Forbidden", message="no rights"))

    assert run(["backup", "describe", "b", "--details"]) == 0

    shown = capsys.readouterr()
    assert "Resource List:  <error getting backup resource list: " in shown.out
    assert "Velero-Native Snapshots:  <error getting snapshot info: " in shown.out
    assert "the errors and warnings of backup b cannot be shown: " in shown.err
    assert "the volumes of backup b cannot be shown: " in shown.err


def test_a_backup_is_described_although_the_store_cannot_read_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    directory = store(tmp_path / "location", "b", [config_map("a")])
    resource_list = directory / "b-resource-list.json.gz"
    resource_list.unlink()
    resource_list.symlink_to(resource_list)

    assert run(["--location", str(tmp_path / "location"), "backup", "describe", "b", "--details"]) == 0

    assert "Resource List:  <error getting backup resource list: " in capsys.readouterr().out
