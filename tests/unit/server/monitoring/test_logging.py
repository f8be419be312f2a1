"""The process's log has the format of the backup logs."""

import io
import json
import logging
import re
from collections.abc import Callable, Iterator

import pytest

from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.server.monitoring.logging import configure_logging, level_name, level_number

Configure = Callable[[str, str], io.StringIO]


@pytest.fixture
def configure() -> Iterator[Configure]:
    root = logging.getLogger()
    level = root.level
    handlers = []

    def configured(level_name: str, format_name: str) -> io.StringIO:
        stream = io.StringIO()
        handlers.append(configure_logging(level_name, format_name, stream=stream))
        return stream

    yield configured
    logging.captureWarnings(False)
    root.setLevel(level)
    for handler in handlers:
        root.removeHandler(handler)


@pytest.mark.parametrize("name", ["trace", "debug", "info", "warning", "error", "fatal", "panic"])
def test_levels_round_trip(name: str) -> None:
    assert level_name(level_number(name)) == name


def test_numbers_between_levels_count_as_the_lower() -> None:
    assert [level_name(number) for number in (0, 15, 25, 49, 99)] == [
        "trace",
        "debug",
        "info",
        "error",
        "panic",
    ]


@pytest.mark.spec("SRV-003")
def test_the_level_name_warn_is_refused() -> None:
    with pytest.raises(
        ValueError, match="invalid log level 'warn': must be one of trace, debug, info, warning"
    ):
        level_number("warn")


def test_a_text_line_has_all_fields(configure: Configure) -> None:
    stream = configure("info", "text")
    log = get_logger("pinnace.test")
    with bound_fields(controller="backup", key="velero/b1"):
        log.warning("Cannot read %s", "it", name="a b")
        log.debug("not written")
    (line,) = stream.getvalue().splitlines()
    assert re.fullmatch(
        r'time="[-0-9T:]+(Z|[-+]\d\d:\d\d)" level=warning msg="Cannot read it" controller=backup '
        r'key=velero/b1 logSource="monitoring/test_logging.py:\d+" name="a b"',
        line,
    )


@pytest.mark.spec("SRV-016")
@pytest.mark.parametrize(("format_name", "key"), [("text", "error"), ("json", "error.message")])
def test_an_exception_is_logged_with_its_place(configure: Configure, format_name: str, key: str) -> None:
    stream = configure("info", format_name)
    log = get_logger("pinnace.test")
    log.error("failed", error=OSError("no space"))
    try:
        raise ValueError("unexpected")
    except ValueError:
        logging.getLogger("some.package").exception("failed too")
    log.error("failed", error="only words")
    with bound_fields(**{"error.file": "plugin.go:1"}):
        log.error("failed", error=OSError("x"))
    lines = stream.getvalue().splitlines()
    if format_name == "json":
        entries = [json.loads(line) for line in lines]
        assert [entry.get(key) for entry in entries] == ["no space", "unexpected", None, "x"]
        assert [entry.get("error") for entry in entries] == [None, None, "only words", None]
        assert entries[1]["error.function"].endswith("test_an_exception_is_logged_with_its_place")
        assert entries[3]["error.file"] == "plugin.go:1"
    else:
        assert ' error="no space" ' in lines[0]
        assert " error=unexpected error.file=" in lines[1].replace('"', "")
        assert ' error="only words" ' in lines[2]
        assert ' error=x error.file="plugin.go:1" ' in lines[3]


def test_configuring_again_replaces_the_handler(configure: Configure) -> None:
    first = configure("info", "text")
    second = configure("error", "json")
    get_logger("pinnace.test").info("too low")
    get_logger("pinnace.test").error("once")
    assert first.getvalue() == ""
    assert [json.loads(line)["msg"] for line in second.getvalue().splitlines()] == ["once"]


def test_an_unknown_format_is_refused(configure: Configure) -> None:
    with pytest.raises(ValueError, match="invalid log format"):
        configure("info", "xml")
