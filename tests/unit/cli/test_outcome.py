"""The end of a run: which errors are shown, which command is named, and the exit code."""

import gzip
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.common.outcome import exit_code, say_findings
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.kinds import BACKUP, RESTORE
from pinnace.cli.main import run
from pinnace.cli.settings import resolve_settings
from pinnace.client.errors import FileMissing, NoSuchObject
from pinnace.client.interface import Backend, DownloadOptions
from tests.unit.cli.cluster import connected

STARTED = "2026-11-22T18:00:00Z"
FLAGS = GlobalFlags(location="/srv/all backups", namespace="team")
LOG = (
    b'time="t" level=error msg="Error backing up item" error="no answer" name=key namespace=shop '
    b"resource=secrets\n"
)


class Stored:
    """A backend with one object and one file."""

    def __init__(self, obj: dict[str, Any] | None, content: bytes | None) -> None:
        self._obj, self._content = obj, content

    async def object(self, _plural: str, name: str) -> dict[str, Any]:
        if self._obj is None:
            raise NoSuchObject(name)
        return self._obj

    @asynccontextmanager
    async def stored_file(
        self, _kind: DownloadTargetKind, _name: str, _options: DownloadOptions
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        if self._content is None:
            raise FileMissing("file not found")
        data = gzip.compress(self._content)

        async def blocks() -> AsyncIterator[bytes]:
            for start in range(0, len(data), 7):
                yield data[start : start + 7]

        yield blocks()


def ended(**counts: int) -> dict[str, Any]:
    status = {"phase": "PartiallyFailed", "startTimestamp": STARTED, **counts}
    return {"metadata": {"name": "b 1"}, "status": status}


async def said(
    capsys: pytest.CaptureFixture[str], backend: Stored, obj: dict[str, Any], *, restore: bool = False
) -> list[str]:
    """The lines on stderr."""
    settings = resolve_settings(FLAGS, environ={})
    await say_findings(cast(Backend, backend), settings, RESTORE if restore else BACKUP, obj)
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err.splitlines()


async def test_the_errors_of_a_backup_are_shown_with_a_command_that_can_be_pasted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    obj = ended(errors=2, warnings=9)

    title, error, rest = await said(capsys, Stored(obj, b"level=info msg=x\n" * 99 + LOG * 2), obj)

    assert title == "Errors:"
    assert error == "  no answer (2 times) [secrets shop/key]"
    what, _, command = rest.partition(": ")
    assert what == "All 2 errors"
    assert shlex.split(command) == [
        "pinnace",
        "backup",
        "logs",
        "b 1",
        "-n",
        "team",
        "--location",
        FLAGS.location,
    ]


async def test_the_warnings_of_a_restore_are_shown_if_it_has_no_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    obj, results = ended(warnings=1), orjson.dumps({"warnings": {"namespaces": {"shop": ["odd\x1b[2J"]}}})

    lines = await said(capsys, Stored(obj, results), obj, restore=True)

    assert lines[:2] == ["Warnings:", "  odd\\x1b[2J"]
    assert lines[2].startswith("The warning in full: pinnace restore describe 'b 1' -n team ")


async def test_all_errors_of_a_restore_are_in_the_command_that_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = [f'error restoring configmaps/shop/c{n}: configmaps "c{n}" is forbidden' for n in range(700)]
    obj, results = ended(errors=700), orjson.dumps({"errors": {"namespaces": {"shop": texts}}})

    lines = await said(capsys, Stored(obj, results), obj, restore=True)

    assert lines[:2] == ["Errors:", f"  {texts[0]} (and 699 more like it)"]
    assert lines[2].startswith("All 700 errors: pinnace restore describe 'b 1' --details ")


@pytest.mark.parametrize(
    "backend",
    [
        Stored(None, LOG),
        Stored(ended(errors=1), None),
        Stored({**ended(errors=1), "status": {"startTimestamp": "2020-01-01T00:00:00Z"}}, LOG),
    ],
    ids=["not stored", "no log", "another run of the name"],
)
async def test_no_command_is_suggested_that_would_show_nothing(
    capsys: pytest.CaptureFixture[str], backend: Stored
) -> None:
    assert await said(capsys, backend, ended(errors=1)) == []


async def test_a_damaged_log_is_reported_with_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    obj = ended(errors=1)
    backend = Stored(obj, orjson.dumps([]))

    lines = await said(capsys, backend, obj, restore=True)
    assert [line.split(":")[0] for line in lines] == ["The error in full"]

    backend = Stored(obj, b"{")
    lines = await said(capsys, backend, obj, restore=True)
    assert [line.split(":")[0] for line in lines] == ["The errors could not be read", "The error in full"]


@pytest.mark.parametrize(
    ("phase", "code"),
    [("Completed", 0), ("PartiallyFailed", 3), ("Failed", 4), ("FailedValidation", 2), ("Unheard", 1)],
)
@pytest.mark.parametrize("by", ["flag", "config"])
def test_with_exit_code_the_phase_decides(
    phase: str, code: int, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connected(monkeypatch, tmp_path)

    async def wait(_client: object, _resource: object, created: dict[str, Any], *_: object) -> Any:
        return {**created, "status": {"phase": phase}}

    monkeypatch.setattr("pinnace.cli.common.run_end.wait_for_end", wait)
    flags = ["--exit-code"] if by == "flag" else []
    if by == "config":
        assert run(["client", "config", "set", "exit-code=true"]) == 0

    assert run(["backup", "create", "b", "--wait", *flags]) == code
    assert run(["backup", "create", "c", "--wait", "--exit-code=false"]) == 0


def test_a_run_with_an_unknown_end_is_an_error() -> None:
    assert exit_code(None) == 1


def test_exit_code_without_wait_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = connected(monkeypatch, tmp_path)
    assert run(["restore", "create", "--from-backup", "b", "--exit-code"]) == 1
    assert "--exit-code goes with --wait" in capsys.readouterr().err
    assert cluster.writes() == []
