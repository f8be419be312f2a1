"""Deleting a backup without a server also deletes the restores that a server made from it."""

import gzip
import json
from pathlib import Path

import pytest

from pinnace.cli.main import run

LINE = (
    'time="2026-11-22T11:34:32Z" level=info msg="Starting restore of backup velero/{}" restore=velero/copy\n'
)
JSON_LINE = '{{"level":"info","msg":"Starting restore of backup velero/{}","restore":"velero/copy"}}\n'


def location(root: Path, logs: dict[str, bytes]) -> Path:
    for backup in ("b1", "b1-other"):
        folder = root / "backups" / backup
        folder.mkdir(parents=True)
        metadata = {"kind": "Backup", "apiVersion": "velero.io/v1", "metadata": {"name": backup}}
        (folder / "velero-backup.json").write_text(json.dumps(metadata))
    for restore, log in logs.items():
        folder = root / "restores" / restore
        folder.mkdir(parents=True)
        (folder / f"restore-{restore}-logs.gz").write_bytes(log)
        (folder / f"restore-{restore}-results.gz").write_bytes(gzip.compress(b"{}"))
    return root


def log_of(*lines: str) -> bytes:
    return gzip.compress("".join(["starting restore\n", *lines]).encode())


def test_restores_of_a_deleted_backup_are_deleted_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = location(
        tmp_path / "backups",
        {
            "copy": log_of(LINE.format("b1")),
            "json": log_of(JSON_LINE.format("b1")),
            "other": log_of(LINE.format("b1-other")),
            "silent": log_of("x" * 100_000, LINE.format("b1")),
            "damaged": b"no gzip",
        },
    )

    assert run(["--location", str(root), "backup", "delete", "b1", "--confirm"]) == 0

    assert capsys.readouterr().out == 'Backup "b1" deleted\n'
    assert sorted(path.name for path in (root / "backups").iterdir()) == ["b1-other"]
    left = sorted(path.name for path in (root / "restores").iterdir() if any(path.iterdir()))
    assert left == ["damaged", "other", "silent"]
