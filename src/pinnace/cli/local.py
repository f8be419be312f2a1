"""What a command needs that makes a backup or restore itself, without a server. (docs/spec: PLG 10)

The cluster's discovery, the plugins of one run, and the lines that say how the run ended.
"""

import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import click

from pinnace.api.backup import Backup
from pinnace.api.restore import Restore
from pinnace.cli.connect import program_name
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.guard import printable
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.plugins.errors import PluginError
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.plugins.kinds import PluginId
from pinnace.plugins.operation import Operation

EXIT_CODES: Final[Mapping[str, ExitCode]] = {
    "Completed": ExitCode.OK,
    "PartiallyFailed": ExitCode.PARTIALLY_FAILED,
    "Failed": ExitCode.FAILED,
}
DIRECTORY_VARIABLE: Final = "PINNACE_PLUGIN_DIR"
"""The directory of plugin programs; without it no plugin programs are run."""


async def discover(client: KubeClient, settings: Settings) -> Discovery:
    """What the cluster serves; what could not be found out is a warning."""
    discovery = await Discovery.load(client, all_versions="EnableAPIGroupVersions" in settings.features)
    for warning in discovery.warnings:
        say(f"WARNING: {warning}", err=True)
    return discovery


@asynccontextmanager
async def open_plugins(
    client: KubeClient, settings: Settings, *, builtin: Iterable[PluginId]
) -> AsyncIterator[Operation]:
    """The plugins of one run: Python packages and modules, and programs of the directory.

    Args:
        builtin: what none of them may be.

    Raises:
        InvalidInput: one cannot be loaded or is no plugin; nothing has been done yet.
    """
    environ = dict(os.environ)
    environ["VELERO_NAMESPACE"] = settings.namespace
    if settings.kubeconfig:
        environ["KUBECONFIG"] = settings.kubeconfig
    directory = environ.get(DIRECTORY_VARIABLE)
    options = PluginOptions(
        directory=Path(directory) if directory else None, features=settings.features, environ=environ
    )
    try:
        found = await find_plugins(options, builtin=builtin)
    except PluginError as error:
        raise InvalidInput(str(error)) from error
    async with found.operation(client=client, namespace=settings.namespace) as operation:
        yield operation


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
