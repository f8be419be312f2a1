"""The restic snapshots of a bucket that Velero wrote are looked up by `backup verify`."""

import shutil
from pathlib import Path

import pytest

from pinnace.cli.main import run
from tests.support.stores.golden import unpack


def test_verify_finds_a_missing_restic_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shutil.which("restic") is not None
    bucket = unpack("1.6.3", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RESTIC_PASSWORD", "static-passw0rd")
    monkeypatch.setenv("PINNACE_LOCATION", str(bucket))

    assert run(["backup", "verify", "files"]) == 0
    assert "restic snapshots          ok        1 snapshot" in capsys.readouterr().out

    for snapshot in (bucket / "restic/files/snapshots").iterdir():
        snapshot.unlink()
    assert run(["backup", "verify", "files"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "restic snapshots" in line]
    assert "BAD" in line
    assert "of volume data of pod files/keeper is not in its repository" in line
