"""Reading single objects by an index of either format, and indexes that lie about flushes."""

import gzip
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from pinnace.archive import writer
from pinnace.cli.main import run
from tests.support.stores.indexed_backups import config_map, entries, store
from tests.support.stores.verifying import checks

pytestmark = pytest.mark.found("P5")

Printed = pytest.CaptureFixture[str]
Lines = list[Any]

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def directory(location: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A backup of several flushed parts."""
    monkeypatch.setattr(writer, "BATCH_BYTES", 100_000)
    numbers = random.Random(1)
    made = store(location, "b1", [config_map(name, x=numbers.randbytes(60_000).hex()) for name in NAMES])
    (made / "b1-volumesnapshots.json.gz").write_bytes(gzip.compress(b"null\n", mtime=0))
    assert sum("part" in line for line in read(made)) >= 3
    return made


def read(directory: Path) -> Lines:
    index = gzip.decompress((directory / "b1-pinnace-index.json.gz").read_bytes())
    return [json.loads(line) for line in index.splitlines()]


def write(directory: Path, lines: Lines) -> None:
    text = b"\n".join([*map(orjson.dumps, lines), b""])
    (directory / "b1-pinnace-index.json.gz").write_bytes(gzip.compress(text))


def make_members(directory: Path) -> None:
    """Give the backup the first format: the tarball is of many gzip members, and the index names them."""
    tarball, lines = directory / "b1.tar.gz", read(directory)
    stored, members, size = tarball.read_bytes(), [], 0
    lines[0] = {"pinnaceIndex": 1}
    for number, line in enumerate(lines):
        if not isinstance(line, dict) or "length" not in line:
            continue
        offset = line.get("part", line.get("member"))
        text = zlib.decompressobj(-15 if "part" in line else 31).decompress(stored[offset:][: line["length"]])
        members.append(gzip.compress(text))
        lines[number] = {"member": size, "length": len(members[-1])}
        size += len(members[-1])
    lines[-1]["size"] = size
    tarball.write_bytes(b"".join(members))
    write(directory, lines)


def shown(capsys: Printed, name: str) -> str:
    """What stands on stderr when an object is shown, which is always the right one."""
    assert run(["backup", "show", "b1", f"cm/{name}", "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["metadata"]["name"] == name
    return err


@pytest.mark.parametrize("form", ["parts", "members"])
def test_objects_are_read_by_the_index(directory: Path, capsys: Printed, form: str) -> None:
    if form == "members":
        make_members(directory)
    code, found = checks(capsys, "b1")
    assert (code, found["index"], found["tarball"][0]) == (0, ("ok", "4 checksums"), "ok")
    assert [shown(capsys, name) for name in NAMES] == [""] * 4

    written = entries(directory / "b1-pinnace-index.json.gz")
    assert run(["backup", "index", "b1"]) == 0
    capsys.readouterr()

    assert entries(directory / "b1-pinnace-index.json.gz") == written
    assert checks(capsys, "b1")[1]["index"] == ("ok", "4 checksums")


def first_part(lines: Lines) -> dict[str, int]:
    found: dict[str, int] = next(line for line in lines if "part" in line)
    return found


def _elsewhere(lines: Lines) -> None:
    first_part(lines)["part"] += 7


def _within_a_batch(lines: Lines) -> None:
    """A flush that never was, in the middle of compressed data."""
    part = first_part(lines)
    part["part"] += part["length"] // 2


def _at_the_start(lines: Lines) -> None:
    """The gzip header taken for raw data."""
    first_part(lines)["part"] = 0


def _as_member(lines: Lines) -> None:
    part = first_part(lines)
    part["member"] = part.pop("part")


def _too_short(lines: Lines) -> None:
    first_part(lines)["length"] = 11


def _one_byte_less(lines: Lines) -> None:
    first_part(lines)["length"] -= 1


def _too_long(lines: Lines) -> None:
    first_part(lines)["length"] = 1 << 40


LIES_ABOUT_BEGINNINGS = (_elsewhere, _within_a_batch, _at_the_start, _as_member)
LIES_ABOUT_ENDS = (_too_short, _one_byte_less, _too_long)


@pytest.mark.found("K-F5")
@pytest.mark.parametrize("lie", LIES_ABOUT_ENDS)
def test_an_index_that_lies_about_the_end_of_a_part_is_reported(
    directory: Path, capsys: Printed, lie: Callable[[Lines], None]
) -> None:
    lines = read(directory)
    lie(lines)
    write(directory, lines)

    code, found = checks(capsys, "b1")

    assert (code, found["index"][0]) == (1, "BAD")
    assert (
        "configmaps shop/b: the index says that its part of the tarball ends elsewhere" in found["index"][1]
    )


@pytest.mark.parametrize("lie", [*LIES_ABOUT_BEGINNINGS, _too_short])
def test_an_index_that_lies_about_flushes_is_left_aside(
    directory: Path, capsys: Printed, lie: Callable[[Lines], None]
) -> None:
    lines = read(directory)
    lie(lines)
    write(directory, lines)

    told = shown(capsys, "b")

    assert told.startswith("The index of backup b1 is not used: ")
    assert told.count("\n") == 1
    if lie is not _too_short:
        code, found = checks(capsys, "b1")
        assert (code, found["index"][0]) == (1, "BAD")
        assert "configmaps shop/b: the index says that it is elsewhere in the tarball" in found["index"][1]
