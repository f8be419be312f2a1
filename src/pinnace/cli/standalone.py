"""What backups and restores share that the command itself makes, without a server."""

import os
import sys
from collections.abc import Mapping
from typing import Final

import click

from pinnace.api.backup import Backup
from pinnace.api.restore import Restore
from pinnace.cli.connect import program_name
from pinnace.cli.errors import ExitCode
from pinnace.cli.guard import printable
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery

EXIT_CODES: Final[Mapping[str, ExitCode]] = {
    "Completed": ExitCode.OK,
    "PartiallyFailed": ExitCode.PARTIALLY_FAILED,
    "Failed": ExitCode.FAILED,
}


async def discover(client: KubeClient, settings: Settings) -> Discovery:
    """What the cluster serves; what could not be found out is a warning."""
    discovery = await Discovery.load(client, all_versions="EnableAPIGroupVersions" in settings.features)
    for warning in discovery.warnings:
        say(f"WARNING: {warning}", err=True)
    return discovery


def say_outcome(what: str, run: Backup | Restore, items: int, command: str) -> None:
    """How it ended, and where to look if not all went well."""
    name, status = run.metadata.name, run.status
    say(
        f"{what} {name} {status.phase}: {items} items{_duration(run)}, "
        f"{status.errors} errors, {status.warnings} warnings."
    )
    if not items and status.phase == "Completed":
        say(f"WARNING: the {what.lower()} is empty: its filters select no object.", err=True)
    if status.failure_reason:
        say(f"Reason: {status.failure_reason}", err=True)
    if status.errors or status.warnings:
        hint = f"`{program_name()} {what.lower()} {command} {name}`"
        say(f"Run {hint} with the same --location for the details.")


def _duration(run: Backup | Restore) -> str:
    start, end = run.status.start_timestamp, run.status.completion_timestamp
    return f" in {(end - start).total_seconds():.1f}s" if start is not None and end is not None else ""


def say(text: str, *, err: bool = False) -> None:
    """Print a line. Nobody being there to read it changes nothing of the work or of its exit code."""
    try:
        click.echo(printable(text), err=err)
    except BrokenPipeError:
        # What could not be written would be written again at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if err else sys.stdout).fileno())
