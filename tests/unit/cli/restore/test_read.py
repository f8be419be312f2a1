"""`restore describe --details` when its files cannot be read."""

from pathlib import Path

import pytest

from pinnace.cli.main import run
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import RESTORES
from tests.unit.cli.cluster import connected


def test_a_restore_is_described_to_a_user_who_may_not_download_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = connected(monkeypatch, tmp_path)
    spec = {"backupName": "b"}
    cluster.add(RESTORES, "r", spec=spec, status={"phase": "PartiallyFailed", "warnings": 1, "errors": 1})
    cluster.refuse("create", "downloadrequests", Forbidden(403, reason="Forbidden", message="no rights"))

    assert run(["restore", "describe", "r", "--details"]) == 0

    shown = capsys.readouterr()
    assert "PartiallyFailed" in shown.out
    assert "no rights" in shown.out
    assert "<error getting restore resource list: " in shown.out
    assert "the volumes of restore r cannot be shown: " in shown.err
