"""Lines of plugins on their way into ours."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace.archive.runlog import RunLog
from pinnace.plugins import get_logger
from pinnace.plugins.guest.logging import HostFormatter
from pinnace.plugins.host.output import PluginLog
from pinnace.plugins.logs import ProcessLog, parse_line, plugin_lines_to
from tests.support.plugins.programs import RecordingLog


def passed_on(line: str) -> tuple[str, str, dict[str, object]]:
    log = RecordingLog()
    PluginLog(Path("/plugins/p"), lambda: log).pass_on(line.encode())
    (found,) = log.lines
    return found.level, found.message, found.fields


@pytest.mark.spec("PLG-023")
def test_a_structured_line_keeps_its_level_and_fields() -> None:
    line = (
        '{"@level":"warn","@message":"m","k":1,"level":"warning","logSource":"p.py:3",'
        '"@logSourceSetBy":"plugin"}\n'
    )

    fields = {"k": 1, "logSource": "p.py:3", "pluginName": "p", "cmd": "/plugins/p"}
    assert passed_on(line) == ("warning", "m", fields)


@pytest.mark.spec("PLG-024")
@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("[ERROR] x", "error"),
        ("[WARN] x", "warning"),
        ("[INFO] x", "info"),
        ("[TRACE] x", "debug"),
        ("x", "debug"),
        ('{"a":1}', "debug"),
        ('{"@message":5}', "debug"),
        ('{"@level":5,"@message":"m"}', "debug"),
        ('{"@level":"error","@message":"m","@timestamp":7}', "debug"),
        ('{"@level":"error","@message":"m","@timestamp":"yesterday"}', "debug"),
        ("{broken", "debug"),
        ("[1, 2]", "debug"),
    ],
)
def test_a_line_of_another_form_is_plain_text(line: str, level: str) -> None:
    assert passed_on(line)[:2] == (level, line)


@pytest.mark.spec("PLG-026")
def test_levels_of_plugins_become_ours() -> None:
    assert passed_on('{"@level":" WARN ","@message":"m"}')[:2] == ("warning", "m")
    assert passed_on('{"@level":"trace","@message":"m"}')[:2] == ("debug", "m")
    for unknown in ("warning", "fatal", ""):
        line = f'{{"@level":"{unknown}","@message":"m"}}'
        assert passed_on(line)[:2] == ("debug", line)


def test_the_source_of_a_line_counts_only_where_the_plugin_set_it() -> None:
    assert "logSource" not in parse_line('{"@level":"info","@message":"m","logSource":"x:1"}').fields


def test_nested_fields_are_text() -> None:
    line = parse_line('{"@level":"info","@message":"m","error":{"a":1},"many":[1,"b"]}')

    assert line.fields == {"error": '{"a":1}', "many": '[1,"b"]'}


def test_blank_lines_are_dropped() -> None:
    log = RecordingLog()
    PluginLog(Path("p"), lambda: log).pass_on(b"  \r\n")
    assert log.lines == []


def test_a_run_log_takes_every_field(tmp_path: Path) -> None:
    with RunLog(tmp_path / "log.gz", fields={"backup": "velero/b1"}) as log:
        relay = PluginLog(Path("/plugins/p"), lambda: log)
        relay.pass_on(
            b'{"@level":"error","@message":"m","error":"cause","msg":"own","self":1,"error.file":"f:1"}'
        )
        relay.pass_on(b"[WARN] careful")
    assert (log.errors, log.warnings) == (1, 1)


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    log = RecordingLog()
    PluginLog(Path("p"), lambda: log).pass_on(b"\xff")
    assert [line.message for line in log.lines] == ["�"]


@pytest.fixture
def process_log() -> Iterator[list[str]]:
    """What reaches the root logger's handlers. (pytest's own listens below the root too.)"""
    texts: list[str] = []
    handler, root = logging.Handler(), logging.getLogger()
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield texts
    root.removeHandler(handler)
    root.setLevel(before)


async def test_a_plugin_here_logs_into_the_run_that_called_it(process_log: list[str]) -> None:
    log, first, second = get_logger("my_plugin"), RecordingLog(), RecordingLog()

    async def work(sink: RecordingLog, name: str) -> None:
        with plugin_lines_to(sink, name):
            await asyncio.sleep(0)
            log.warning("from %s", name, extra={"count": 1})

    await asyncio.gather(work(first, "a.io/x"), work(second, "a.io/y"))

    assert first.messages("warning") == ["from a.io/x"]
    assert second.messages("warning") == ["from a.io/y"]
    assert first.lines[0].fields["pluginName"] == "a.io/x"
    assert first.lines[0].fields["count"] == 1
    assert process_log == []


def test_a_line_with_an_error_among_its_extra_fields_reaches_the_run() -> None:
    log, run = get_logger("my_plugin"), RecordingLog()

    with plugin_lines_to(run, "a.io/x"):
        log.error("broken", extra={"error": KeyError("why")})

    assert run.messages("error") == ["broken"]


def test_outside_a_run_a_plugin_logs_into_the_log_of_the_process(process_log: list[str]) -> None:
    log = get_logger("my_plugin")
    log.info("at its import")
    log.debug("too much")

    assert process_log == ["at its import"]


def test_the_process_log_has_fields(caplog: pytest.LogCaptureFixture) -> None:
    ProcessLog().log("warning", "100% m", error="e", pluginName="p")

    (record,) = caplog.records
    assert record.getMessage() == "100% m"
    assert vars(record)["fields"] == {"pluginName": "p", "error": "e"}


def test_own_lines_are_read_back_as_they_were_meant() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HostFormatter())
    logger = logging.Logger("x")
    logger.addHandler(handler)
    try:
        raise KeyError("k")
    except KeyError:
        logger.warning("broken: %s", "it", exc_info=True, extra={"count": 2})

    written = stream.getvalue()
    assert json.loads(written)["@level"] == "warn"
    line = parse_line(written.rstrip())
    assert (line.level, line.message) == ("warning", "broken: it")
    assert line.fields["error"] == "KeyError: 'k'"
    assert line.fields["count"] == 2
    assert str(line.fields["logSource"]).startswith("test_logs.py:")
