"""Reports how a run ended: first errors and advice, commands that show more, exit code. (docs/adr/060)"""

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from pinnace.api.objects import JSONObject
from pinnace.api.values.counts import counted
from pinnace.api.values.shell_words import as_name
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.backends import server_backend
from pinnace.cli.common.content_options import RunMessageOptions, WaitOptions
from pinnace.cli.connect import command_line
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.guard import discard, printable
from pinnace.cli.kinds import BACKUP, PrintedKind
from pinnace.cli.output.cells import phase, status
from pinnace.cli.settings import Settings
from pinnace.client.errors import ClientError, FileMissing, NoSuchObject
from pinnace.client.interface import Backend, DownloadOptions, fetch, fetch_json
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import velero
from pinnace.storage.errors import StorageError

if TYPE_CHECKING:
    from pinnace.cli.output.findings import Message
    from pinnace.kube.client import KubeClient

EXIT_CODES: Final[Mapping[str, ExitCode]] = {
    "Completed": ExitCode.OK,
    "PartiallyFailed": ExitCode.PARTIALLY_FAILED,
    "Failed": ExitCode.FAILED,
}
_READ_SECONDS: Final = 15.0
"""The deadline for reading the log or the results after the run has ended."""
_DONE_FIELDS: Final = {"backup": "itemsBackedUp", "restore": "itemsRestored"}
_LINE_BYTES: Final = 1 << 20


def check(settings: Settings, options: WaitOptions) -> None:
    """Refuse a flag that would do nothing. Raises InvalidInput."""
    if isinstance(options, RunMessageOptions) and options.messages_file and settings.location is None:
        raise InvalidInput("--messages-file goes with --location: a server reads the sinks of a Secret")
    if options.exit_code and not options.wait and settings.location is None:
        raise InvalidInput("--exit-code goes with --wait: without it the command ends before the run does")


async def wait(
    client: "KubeClient", settings: Settings, kind: PrintedKind, created: JSONObject, options: WaitOptions
) -> int:
    """Wait for the end of a server's run and print how it ended.

    Args:
        options: how progress is shown, and whether the exit code says how the run ended.

    Returns:
        The exit code.
    """
    from pinnace.cli.common.run_end import WaitedRun, wait_for_end

    resource = velero(kind.plural)
    try:
        run = WaitedRun(what=kind.noun, done_field=_DONE_FIELDS[kind.noun], progress=options.progress)
        ended = await wait_for_end(client, resource, created, run)
    except asyncio.CancelledError:
        look = command_line(settings, kind.noun, "describe", *as_name(created["metadata"]["name"]))
        say(f"Stopped waiting; the {kind.noun} continues on the server. See how it goes: {look}", err=True)
        raise
    if ended is not None:
        await say_findings(server_backend(client, settings), settings, kind, ended)
    exactly = settings.exit_code if options.exit_code is None else options.exit_code
    return exit_code(ended) if exactly else ExitCode.OK


def exit_code(ended: JSONObject | None) -> ExitCode:
    """The exit code for an object in its final phase; None stands for an object whose end is unknown."""
    if ended is None:
        return ExitCode.ERROR
    if phase(ended) == "FailedValidation":
        return ExitCode.INVALID_INPUT
    return EXIT_CODES.get(phase(ended), ExitCode.ERROR)


def say_where_to_look(settings: Settings, kind: PrintedKind, name: str) -> None:
    """Print the commands that show what has become of a request."""
    describe, logs = (
        command_line(settings, kind.noun, verb, *as_name(name)) for verb in ("describe", "logs")
    )
    click.echo(f"Run `{describe}` or `{logs}` for more details.")


async def say_findings(backend: Backend, settings: Settings, kind: PrintedKind, ended: JSONObject) -> None:
    """Print the first distinct errors of a run, or warnings if there are no errors, and where the rest is.

    A command is named only if it has something to show: the files of a run that Failed may not be stored.
    """
    found = status(ended)
    what = "error" if found.get("errors") else "warning" if found.get("warnings") else ""
    name = ended["metadata"]["name"]
    if not what or not await _is_stored(backend, kind, ended):
        return
    try:
        findings = await _read(backend, kind, name, what)
    except (FileMissing, NoSuchObject):
        return
    except (ClientError, KubeError, StorageError, ValueError) as error:
        say(f"The {what}s could not be read: {error}", err=True)
        findings = []
    # That nothing was selected has been printed already, for backups of every server.
    from pinnace.backup.filters import NOTHING_SELECTED  # only a run that went wrong needs these
    from pinnace.cli.output.findings import report

    findings = [finding for finding in findings if finding.text != NOTHING_SELECTED]
    for line in (f"{what.capitalize()}s:", *report(findings, kind.noun)) if findings else ():
        say(line, err=True)
    total = found.get(f"{what}s") or 0
    # Without --details, the description of a restore shows similar errors as one line.
    words = ("logs", name) if kind == BACKUP else ("describe", name, *(["--details"] if total > 1 else []))
    where = f"All {counted(total, what)}" if total > 1 else f"The {what} in full"
    say(f"{where}: {command_line(settings, kind.noun, *words)}", err=True)


async def _is_stored(backend: Backend, kind: PrintedKind, ended: JSONObject) -> bool:
    """Whether the backend has this run, and not another of the same name."""
    try:
        stored = await backend.object(kind.plural, ended["metadata"]["name"])
    except (ClientError, KubeError, StorageError):
        return False
    return bool(status(stored).get("startTimestamp") == status(ended).get("startTimestamp"))


async def _read(backend: Backend, kind: PrintedKind, name: str, what: str) -> "list[Message]":
    from pinnace.cli.output.findings import log_findings, result_findings

    options = DownloadOptions(timeout_seconds=_READ_SECONDS)
    if kind == BACKUP:
        lines = _Lines(what)
        await fetch(backend, DownloadTargetKind.BACKUP_LOG, name, options, lines)
        return list(log_findings(lines.kept, what))
    results = await fetch_json(backend, DownloadTargetKind.RESTORE_RESULTS, name, options)
    return list(result_findings(results, what))


class _Lines:
    """Takes a log in blocks and keeps the lines that may be of one level; a log can be larger than memory."""

    def __init__(self, level: str) -> None:
        self._signs = (f"level={level} ".encode(), f'"level":"{level}"'.encode())
        self._rest = b""
        self.kept: list[str] = []

    def write(self, block: bytes) -> int:
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._rest = self._rest[:_LINE_BYTES]
        self.kept += [
            line.decode(errors="backslashreplace")
            for line in lines
            if any(sign in line for sign in self._signs)
        ]
        return len(block)


def say(text: str, *, err: bool = False) -> None:
    """Print a line. An error of writing it changes neither the work nor its exit code.

    The reader of a pipe or the terminal may be gone, or the disk of a file full.
    """
    try:
        click.echo(printable(text), err=err)
    except OSError:
        discard(sys.stderr if err else sys.stdout)
