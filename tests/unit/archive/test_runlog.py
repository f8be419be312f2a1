"""The log of one backup: its file, its counts, and full disks."""

import gzip
import io
import json
import re
import stat
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace.archive import runlog
from pinnace.archive.runlog import RunLog
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from tests.support.clock import FakeClock

FIELDS = {"backup": "velero/b1"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "b1-logs.gz"


def lines_of(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_a_text_line_has_the_bound_fields_and_the_source(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunLog(path, fields=FIELDS, clock=clock) as log:
        log.info("Backing up item", resource="pods", namespace="ns", name="a")
        clock.turn(1.5)
        log.child(resource="pods", progress="").warning(
            Notice(Code.DEFECT, "Skipping item"), name="with space"
        )
        log.debug("not written")
    here = r"archive/test_runlog\.py:\d+"
    first, second = lines_of(path)
    assert re.fullmatch(
        r'time="[-0-9T:]+(?:Z|[-+]\d\d:\d\d)" level=info msg="Backing up item" backup=velero/b1 '
        rf'logSource="{here}" name=a namespace=ns resource=pods',
        first,
    )
    assert re.search(
        rf':27.*" level=warning msg="Skipping item" backup=velero/b1 code=defect logSource="{here}" '
        r'name="with space" progress= resource=pods$',
        second,
    )


def test_lines_in_json(path: Path, clock: FakeClock) -> None:
    with RunLog(path, fields=FIELDS, fmt="json", clock=clock) as log:
        log.error(Notice(Code.DEFECT, "cannot back up item"), name="a", count=3)
    (line,) = map(json.loads, lines_of(path))
    assert line.pop("logSource").startswith("archive/test_runlog.py:")
    assert line.pop("time")[14:19] == "43:26"
    assert line == {
        "backup": "velero/b1",
        "code": "defect",
        "count": 3,
        "level": "error",
        "msg": "cannot back up item",
        "name": "a",
    }


@pytest.mark.spec("SRV-016")
def test_error_of_an_exception_in_both_formats(path: Path) -> None:
    with RunLog(path, fields=FIELDS, fmt="json") as log:
        log.error(Notice(Code.DEFECT, "failed"), error=OSError("no space left"))
    (entry,) = map(json.loads, lines_of(path))
    assert entry["error.message"] == "no space left"
    assert "error" not in entry
    with RunLog(path, fields=FIELDS) as log:
        log.error(Notice(Code.DEFECT, "failed"), error=OSError("no space left"))
    (line,) = lines_of(path)
    assert ' error="no space left" ' in line
    assert "error.message" not in line


@pytest.mark.spec("SRV-016")
@pytest.mark.parametrize("fmt", ["text", "json"])
def test_error_fields_set_by_a_plugin_are_kept(path: Path, fmt: str) -> None:
    try:
        raise ValueError("inner")
    except ValueError as error:
        caught = error
    said = {"error.file": "plugin.go:1", "error.function": "main.run", "logSource": "main.go:7"}
    with RunLog(path, fields=FIELDS, fmt=fmt) as log:
        log.log("error", "from a plugin", error=caught, **said)
        log.log("error", "text only", error="not an exception")
    first, second = lines_of(path)
    for value in said.values():
        assert value in first
    assert "test_runlog" not in first
    assert re.search(r'[ ,]"?error"?[=:]"not an exception"', second)
    assert "error.message" not in second


@pytest.mark.spec("SRV-017")
@pytest.mark.parametrize("level", ["trace", "info", "error", "panic"])
def test_counts_do_not_depend_on_the_level(path: Path, level: str) -> None:
    with RunLog(path, fields=FIELDS, level=level) as log:
        view = log.child(name="a")
        log.warning(Notice(Code.DEFECT, "from the core"))
        view.log("warning", "from a plugin")
        view.error(Notice(Code.DEFECT, "from an item"))
        log.info("neither")
        assert (log.warnings, log.errors) == (view.warnings, view.errors) == (2, 1)
    assert (log.warnings, log.errors) == (2, 1)
    assert len(lines_of(path)) == {"trace": 4, "info": 4, "error": 1, "panic": 0}[level]


def test_counts_are_final_after_close_and_later_lines_go_to_the_echo_only(path: Path) -> None:
    echo = io.StringIO()
    log = RunLog(path, fields=FIELDS, echo=echo)
    log.error(Notice(Code.DEFECT, "before"))
    log.close()
    log.error(Notice(Code.DEFECT, "after"))
    log.close()
    assert log.errors == 1
    assert len(lines_of(path)) == 1
    assert [" msg=before " in line or " msg=after " in line for line in echo.getvalue().splitlines()] == [
        True
    ] * 2


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_a_hostile_name_cannot_forge_a_line(path: Path, fmt: str) -> None:
    hostile = 'x"\n{"level":"error","msg":"forged"}\ntime="2021-01-01T00:00:00Z" level=error msg=forged'
    with RunLog(path, fields=FIELDS, fmt=fmt) as log:
        log.info(hostile, name=hostile)
        log.child(**{"level=error msg": hostile}).info("m", level="error")
    assert len(lines_of(path)) == 2
    for line in lines_of(path):
        start = line.split(" msg=")[0] if fmt == "text" else json.loads(line)["level"]
        assert "error" not in start


def test_file_can_be_read_while_it_is_written(path: Path) -> None:
    log = RunLog(path, fields=FIELDS)
    written = 0
    for _ in range(3):
        for _ in range(10):
            log.info("some progress", number=written)
            written += 1
        log.flush()
        readable = zlib.decompressobj(31).decompress(path.read_bytes()).decode()
        assert len(readable.splitlines()) == written
    log.close()
    assert len(lines_of(path)) == written


def test_lines_reach_the_disk_without_flush_when_there_are_many(path: Path) -> None:
    log = RunLog(path, fields=FIELDS)
    size = path.stat().st_size
    assert size == 0
    while path.stat().st_size == size:
        log.info("x" * 100)
        assert len(log._sink._lines) * 100 < runlog.FLUSH_BYTES
    log.close()
    assert all("x" * 100 in line for line in lines_of(path))


def test_file_is_private(path: Path) -> None:
    RunLog(path, fields=FIELDS).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert lines_of(path) == []


def test_without_a_file_lines_are_counted_and_echoed() -> None:
    echo = io.StringIO()
    with RunLog(None, fields=FIELDS, echo=echo) as log:
        log.warning(Notice(Code.DEFECT, "seen"))
        log.flush()
    assert log.path is None
    assert log.warnings == 1
    assert " level=warning msg=seen backup=velero/b1 " in echo.getvalue()


def test_a_broken_echo_does_not_break_the_log(path: Path) -> None:
    echo = io.StringIO()
    echo.close()
    with RunLog(path, fields=FIELDS, echo=echo) as log:
        log.info("one")
        log.flush()
        log.info("two")
    assert len(lines_of(path)) == 2


@pytest.mark.parametrize("flush_first", [True, False], ids=["at-a-flush", "at-close"])
def test_full_disk_shows_at_close_and_not_before(flush_first: bool) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    log = RunLog(full, fields=FIELDS)
    log.error(Notice(Code.DEFECT, "counted all the same"))
    if flush_first:
        log.flush()
        log.error(Notice(Code.DEFECT, "this too"))
        log.flush()
    with pytest.raises(OSError, match="No space left"):
        log.close()
    assert log.errors == (2 if flush_first else 1)
    log.close()  # reported once


def test_file_that_cannot_be_created_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RunLog(tmp_path / "missing" / "log.gz", fields=FIELDS)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: RunLog(path, fields=FIELDS, level="warn"),
        lambda path: RunLog(path, fields=FIELDS, fmt="xml"),
    ],
    ids=["level", "format"],
)
def test_unknown_names_are_refused_before_a_file_is_made(path: Path, make: Callable[[Path], RunLog]) -> None:
    with pytest.raises(ValueError, match="invalid log"):
        make(path)
    assert not path.exists()


def test_lines_of_several_threads_are_all_there(path: Path) -> None:
    log = RunLog(path, fields=FIELDS)

    def write(number: int) -> None:
        for count in range(1500):
            log.warning(Notice(Code.DEFECT, "from a thread"), thread=number, count=count)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert log.warnings == 6000
    assert len(set(lines_of(path))) == 6000


@pytest.mark.parametrize("fmt", ["text", "json"])
@pytest.mark.parametrize("varying", ["aaa", "name", "zzz"], ids=["first", "amid", "last"])
def test_a_prepared_line_is_the_ordinary_one(path: Path, fmt: str, varying: str) -> None:
    values = [
        "plain",
        "",
        "two words",
        'quo"ted',
        "line\nbreak",
        "nul\x00",
        "ünï",
        'x" level=error msg="forged',
    ]
    fields = {"namespace": "n s", "progress": "", "resource": "pods", "share": "100%d %s %"}
    message = 'Backed up %d of "%d"'
    with RunLog(path, fields=FIELDS, fmt=fmt, clock=FakeClock()) as log:
        write = log.info_series(message, varying, **fields)
        for number, value in enumerate(values):
            write(number, 1000 * number, value)
            log.info(message % (number, 1000 * number), **{**fields, varying: value})
    lines = [re.sub(r"test_runlog\.py:\d+", "here", line) for line in lines_of(path)]
    assert len(lines) == 2 * len(values)
    assert lines[::2] == lines[1::2]


def test_a_prepared_line_keeps_to_the_level(path: Path) -> None:
    with RunLog(path, fields=FIELDS, level="warning") as log:
        log.info_series("Backed up %d of %d", "name", resource="pods")(1, 2, "a")
    assert lines_of(path) == []
