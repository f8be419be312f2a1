"""Broken and hostile backups in a location: they spoil nothing for the good ones next to them."""

import gzip
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS
from tests.e2e.without_server.command import Pinnace


def metadata(**changes: Any) -> bytes:
    """Made-up metadata of a backup."""
    backup: dict[str, Any] = {
        "kind": "Backup",
        "apiVersion": "velero.io/v1",
        "metadata": {"name": "good", "namespace": "velero"},
        "spec": {"ttl": "1h0m0s", "hooks": {}},
        "status": {"phase": "Completed", "formatVersion": "1.1.0", "startTimestamp": "2021-08-11T21:43:26Z"},
    }
    return json.dumps(backup | changes).encode()


BROKEN: dict[str, bytes] = {
    "empty": b"",
    "not-json": b"{",
    "not-utf8": b"\xff\xfe",
    "array": b"[]",
    "null": b"null",
    "other-kind": metadata(kind="Restore"),
    "no-kind": metadata(kind=None),
    "text-for-labels": metadata(metadata={"name": "x", "labels": "everything"}),
    "number-for-label": metadata(metadata={"name": "x", "labels": {"a": 1}}),
    "text-for-status": metadata(status="Completed"),
    "bad-time": metadata(status={"phase": "Completed", "startTimestamp": "yesterday"}),
    "bad-duration": metadata(spec={"ttl": "for ever"}),
    "deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
}


@pytest.fixture
def spoilt(location: Path) -> Path:
    """A location with one good backup, `good`, among broken ones."""
    for name, content in {**BROKEN, "good": metadata()}.items():
        folder = location / "backups" / name
        folder.mkdir(parents=True)
        (folder / "velero-backup.json").write_bytes(content)
    (location / "backups/unfinished").mkdir()
    (location / "backups/unfinished/unfinished-logs.gz").write_bytes(b"")
    folder = location / "backups/disguised"
    folder.mkdir()
    (folder / "velero-backup.json").write_bytes(metadata(metadata={"name": "../../good"}))
    for name, content in (("broken", b"{"), ("text", b'"text"')):
        folder = location / "restores" / name
        folder.mkdir(parents=True)
        (folder / "velero-restore.json").write_bytes(content)
    return location


async def test_good_backups_are_listed_with_a_warning_for_each_other(pinnace: Pinnace, spoilt: Path) -> None:
    listed = await pinnace("backup", "get")
    assert listed.code == 0
    assert [row.split()[0] for row in listed.lines[1:]] == ["disguised", "good"]
    warnings = listed.err.splitlines()
    assert all(line.startswith("WARNING: the metadata of backup ") for line in warnings)
    assert sorted(line.split()[5] for line in warnings) == sorted(BROKEN)
    for output in ("json", "yaml"):
        assert (await pinnace("backup", "get", "-o", output)).code == 0
    described = await pinnace("backup", "describe", "--details")
    assert described.code == 0
    assert "Name:         good" in described.lines
    assert "Resource List:  <backup resource list not found>" in described.lines
    restores = await pinnace("restore", "get")
    assert (restores.code, restores.out, restores.err.count("WARNING: ")) == (0, "", 2)
    named = await pinnace("backup", "get", "not-json")
    assert (named.code, named.err.count("\n")) == (1, 1)
    assert (await pinnace("backup", "logs", "good")).code == 1


async def test_the_text_of_a_backup_cannot_steer_a_terminal(pinnace: Pinnace, location: Path) -> None:
    steering = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x1b[31mloud\x1b[0m"
    folder = location / "backups/evil"
    folder.mkdir(parents=True)
    made_up = {"name": "evil", "labels": {"a": steering}, "annotations": {"b": steering}}
    (folder / "velero-backup.json").write_bytes(
        metadata(metadata=made_up, status={"phase": f"Completed{steering}", "failureReason": steering})
    )
    for command in (("get", "--show-labels"), ("get", "-o", "json"), ("get", "-o", "yaml"), ("describe",)):
        outcome = await pinnace.on_terminal("backup", *command)
        assert outcome.code == 0
        plain = re.sub(r"\x1b\[\d+m", "", outcome.out.replace("\r\n", "\n"))
        assert not set(plain) & set("\x1b\x07\r"), plain
        assert "\x9b" not in plain or "json" in command
        assert "title" in plain
        assert "\x1b[31mloud" not in outcome.out


async def test_broken_and_unfinished_backups_can_be_deleted(pinnace: Pinnace, spoilt: Path) -> None:
    outcome = await pinnace("backup", "delete", "not-json", "unfinished", "--confirm")
    assert outcome.code == 0
    assert not (spoilt / "backups/not-json").exists()
    assert not (spoilt / "backups/unfinished").exists()
    assert (await pinnace("restore", "delete", "broken", "--confirm")).out == 'Restore "broken" deleted\n'
    (spoilt / "backups/being-made").mkdir()
    (spoilt / "backups/being-made/being-made.tar.gz").write_bytes(b"")
    everything = await pinnace("backup", "delete", "--all", "--confirm")
    assert everything.code == 0
    # Another process may be about to finish it.
    assert [path.name for path in (spoilt / "backups").iterdir()] == ["being-made"]


async def test_a_damaged_log_and_damaged_lists_are_reported(pinnace: Pinnace, spoilt: Path) -> None:
    folder = spoilt / "backups/good"
    whole = gzip.compress(b"a line\n" * 1000)
    (folder / "good-logs.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "good-resource-list.json.gz").write_bytes(gzip.compress(b"not json"))
    log = await pinnace("backup", "logs", "good")
    assert (log.code, log.err.count("\n")) == (1, 1)
    assert "the stored file is damaged" in log.err
    described = await pinnace("backup", "describe", "good", "--details")
    assert described.code == 0
    assert "<error reading backup resource list: " in described.out
    (folder / "good-resource-list.json.gz").write_bytes(gzip.compress(b'{"v1/Pod": "all of them"}'))
    assert (await pinnace("backup", "describe", "good", "--details")).code == 0
    (folder / "good-resource-list.json.gz").write_bytes(gzip.compress(b"null"))
    assert (await pinnace("backup", "describe", "good", "--details")).code == 0


@pytest.mark.spec("RST-036")
async def test_a_hostile_tarball_writes_nothing_outside(
    pinnace: Pinnace, spoilt: Path, tmp_path: Path, client: KubeClient, namespace: str
) -> None:
    target = tmp_path / "target"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in ("../../../target", str(target), "resources/../../../../target"):
            entry = tarfile.TarInfo(name)
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"evil"))
    (spoilt / "backups/good/good.tar.gz").write_bytes(buffer.getvalue())

    outcome = await pinnace("restore", "create", "r1", "--from-backup", "good")

    assert outcome.code == 3
    assert not target.exists()
    description = (await pinnace("restore", "describe", "r1")).out
    assert "error reading backup contents: " in description
    assert "settings" not in [
        item["metadata"]["name"] for item in await client.list_all(CONFIGMAPS, namespace)
    ]


async def test_side_files_of_the_wrong_shape_end_a_restore_in_words(pinnace: Pinnace, spoilt: Path) -> None:
    folder = spoilt / "backups/good"
    with tarfile.open(folder / "good.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("resources")
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    for number, name, content in (
        (1, "podvolumebackups", b'[{"spec": "text"}]'),
        (2, "podvolumebackups", b'["text"]'),
        (3, "volumesnapshots", b'{"a": 1}'),
    ):
        (folder / f"good-{name}.json.gz").write_bytes(gzip.compress(content))
        outcome = await pinnace("restore", "create", f"r{number}", "--from-backup", "good")
        assert outcome.code == 4, outcome
        assert outcome.told.startswith("Reason: error ")
        (folder / f"good-{name}.json.gz").unlink()
    assert (await pinnace("restore", "create", "r9", "--from-backup", "good")).code == 0
