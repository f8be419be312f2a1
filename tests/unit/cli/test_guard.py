"""What reaches a user: one line for each error, no tracebacks, no control characters of others."""

import asyncio
import errno
import io
import json
import os
import re
import sys
import warnings
from pathlib import Path
from typing import cast

import pytest
import yaml

from pinnace.api.values.error_texts import error_text
from pinnace.cli import program
from pinnace.cli.connect import run_async
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.guard import GuardedStream, PrintableBytes, complain, guarded_terminal, printable
from pinnace.cli.output.layout import Sheet, echo_laid_out
from pinnace.cli.output.printing import OutputFlags, Table, encode, render_table
from pinnace.client.errors import ClientError, InvalidArgument
from pinnace.installing.errors import InstallError
from pinnace.kube.errors import ConnectionFailed

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\r\x08\x7f"
SHOWN = r"\x1b]0;title\x07\x1b[2J\x9b31m\x0d\x08\x7f"


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self) -> None:
        self.raw_bytes = io.BytesIO()
        super().__init__(self.raw_bytes, encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        return self.raw_bytes.getvalue().decode()


def painted(phase: str) -> str:
    """A sheet with a phase that others wrote, in a colour of ours."""
    sheet = Sheet(colour=True)
    sheet.field("Phase", sheet.paint(phase, "31"))
    return sheet.render()


def test_a_terminal_gets_control_characters_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    with guarded_terminal():
        print(HOSTILE)
        sys.stdout.buffer.write(b"log \xc3")
        sys.stdout.buffer.write(HOSTILE.encode())
        print(f"\x1b[31mred\x1b[0m\t{HOSTILE}", file=sys.stderr)
        echo_laid_out(painted(f"\x1b[32mCompleted\x1b[0m{HOSTILE}") + "\n", colour=True)
        sys.stdout.writelines([HOSTILE])
        cast(GuardedStream, sys.stdout).unguarded.write("\r\x1b[K")

    assert sys.stdout is out
    assert out.shown.startswith(f"{SHOWN}\nlog ")
    assert out.shown.endswith(f"{SHOWN}\r\x1b[K")
    ours = re.compile("\x1b\\[(?:31|0)m")
    assert HOSTILE[0] not in ours.sub("", out.shown.removesuffix("\r\x1b[K"), count=2)
    assert err.shown == f"\\x1b[31mred\\x1b[0m\t{SHOWN}\n"
    sheet = f"Phase:  \x1b[31m\\x1b[32mCompleted\\x1b[0m{SHOWN}\x1b[0m\n"
    assert sheet in out.shown


def test_a_table_has_only_its_own_colours() -> None:
    phases = {"\x1b[1mloud": "Completed", "b": "\x1b[32mCompleted\x1b[0m"}
    objects = [{"metadata": {"name": name}} for name in phases]
    table = Table(
        columns=(
            ("NAME", lambda obj: obj["metadata"]["name"]),
            ("STATUS", lambda obj: phases[obj["metadata"]["name"]]),
            ("AGE", lambda _obj: "1d"),
        ),
    )
    shown = render_table(objects, table, OutputFlags(format=None, colour=True))
    assert "\\x1b[1mloud" in shown
    assert "\\x1b[32mCompleted\\x1b[0m" in shown
    assert shown.count("\x1b[32mCompleted\x1b[0m") == 1


@pytest.mark.parametrize("character", "\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069")
def test_characters_that_reorder_or_break_text_are_shown_as_text(character: str) -> None:
    assert printable(f"a{character}b") == f"a\\u{ord(character):04x}b"


@pytest.mark.parametrize(
    "text", ["ä\u00a0ö", "\u05d0\u0628", "\u0646\u200c\u0627", "\U0001f468\u200d\U0001f469"]
)
def test_text_of_any_script_is_shown_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_a_pipe_gets_bytes_as_they_are(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with guarded_terminal():
        sys.stdout.buffer.write(HOSTILE.encode())
        sys.stdout.flush()
        complain(f"An error occurred: {HOSTILE}")

    captured = capfdbinary.readouterr()
    assert captured.out == HOSTILE.encode()
    assert captured.err.decode() == f"An error occurred: {SHOWN}\n"


def test_machine_formats_are_exact_and_hold_no_control_characters() -> None:
    document = {HOSTILE: [HOSTILE, "\x80é\u2028", "a\u202eb: 'x", "\u061cy"]}

    for form in ("json", "yaml"):
        text = encode(document, form)
        assert printable(text) == text

    assert json.loads(encode(document, "json")) == document
    assert yaml.safe_load(encode(document, "yaml")) == document


def test_an_error_of_a_bucket_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CommandError(f"spec.ttl: {HOSTILE}")

    monkeypatch.setattr(program.cli, "main", fail)

    assert program.run(["backup", "get"]) == 1
    assert capsys.readouterr().err == f"An error occurred: spec.ttl: {SHOWN}\n"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), "/x: No such file or directory"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", b"/x"),
            "/x: No such file or directory",
        ),
        (
            OSError(errno.EXDEV, "Invalid cross-device link", "a", None, "b"),
            "a -> b: Invalid cross-device link",
        ),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError("said by a library"), "said by a library"),
        (KeyError("name"), "KeyError: 'name'"),
        (ValueError(), "ValueError"),
        (
            ExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [OSError(5, "b")]), ValueError("a")]),
            "a; b",
        ),
    ],
)
def test_the_text_of_an_error_has_no_python_notation(error: BaseException, text: str) -> None:
    assert error_text(error) == text


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT), "/x"), "/x: No such file or directory"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "Too many open files; the limits of this process"),
        (MemoryError(), "out of memory; the limits of this process"),
        (RuntimeError("can't start new thread"), "can't start new thread: raise the limit of processes and"),
        (
            ExceptionGroup("unhandled errors in a TaskGroup", [OSError(errno.ENOSPC, "No space left", "/t")]),
            "/t: No space left",
        ),
    ],
)
def test_errors_of_the_system_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(program.cli, "main", fail)

    assert program.run(["backup", "get"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"An error occurred: {line}")
    assert (printed.count("\n"), "[Errno" in printed, "Traceback" in printed) == (1, False, False)


def test_a_current_folder_that_was_deleted_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert program.run(["--location", "./backups", "backup", "get"]) == 1

    assert "the current folder does not exist any more" in capsys.readouterr().err


def test_the_traceback_is_shown_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CommandError("no")

    monkeypatch.setenv("PINNACE_TRACEBACK", "1")
    monkeypatch.setattr(program.cli, "main", fail)

    program.run(["backup", "get"])

    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_error_in_a_group_is_reported_like_a_single_one() -> None:
    async def fail() -> None:
        raise ConnectionFailed("cannot reach the server")

    async def work() -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(asyncio.sleep(60))
            async with asyncio.TaskGroup() as inner:
                inner.create_task(fail())

    with pytest.raises(CommandError, match=r"^cannot reach the server$"):
        run_async(work())


@pytest.mark.found("P14")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(0)], ids=["interrupt", "exit"])
def test_an_end_that_foreign_code_brought_about_is_said_with_its_place(error: BaseException) -> None:
    async def end() -> None:
        raise error

    async def work() -> None:
        ending = asyncio.create_task(end())
        await asyncio.wait((ending,))

    place = rf"{type(error).__name__} was raised at .*test_guard\.py:\d+"
    with pytest.raises(CommandError, match=place):
        run_async(work())


def test_a_loop_that_cannot_be_created_closes_the_coroutine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        raise AssertionError("never begun")

    def refuse(coroutine: object) -> None:
        coroutine.close()  # type: ignore[attr-defined]
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(asyncio, "run", refuse)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OSError, match="Too many open files"):
            run_async(work())


def test_a_program_that_cannot_be_loaded_says_so_in_one_line(tmp_path: Path) -> None:
    import subprocess

    code = """
import sys
class Limit:
    def find_spec(self, name, *_):
        if name == "click":
            raise OSError(24, "Too many open files", "click.py")
sys.meta_path.insert(0, Limit())
from pinnace.cli.main import main
sys.argv = ["pinnace", "backup", "get"]
main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )

    expected = "An error occurred: the program could not be loaded: click.py: Too many open files\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", expected)


@pytest.mark.found("K-F12")
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_log_in_a_pipe_has_no_control_characters(size: int) -> None:
    pipe = io.BytesIO()
    data = f"ü {HOSTILE}\n".encode() + b"\xff\xc3"
    sink = PrintableBytes(pipe)
    for at in range(0, len(data), size):
        sink.write(data[at : at + size])
    sink.end()

    assert pipe.getvalue().decode() == f"ü {SHOWN}\n\\xff\\xc3"


@pytest.mark.parametrize("kind", [ClientError, *ClientError.__subclasses__(), InstallError])
def test_errors_of_the_rooms_below_end_a_command_with_their_text(kind: type[Exception]) -> None:
    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(failing())

    async def failing() -> None:
        raise kind("why, and what to do")

    with pytest.raises(CommandError, match=r"^why, and what to do$") as caught:
        run_async(work())

    assert isinstance(caught.value, InvalidInput) == (kind is InvalidArgument)
