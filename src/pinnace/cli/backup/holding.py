"""The work of `backup hold` and `backup release`. (docs/adr/128)"""

from collections.abc import Awaitable, Callable, Sequence

import click

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.retention.holds import hold_of
from pinnace.cli.backends import open_backend
from pinnace.cli.backup.hold import BackupHoldOptions, BackupReleaseOptions
from pinnace.cli.connect import run_async, settings_of
from pinnace.cli.errors import CommandError, aggregate
from pinnace.cli.output import cells
from pinnace.cli.settings import Settings
from pinnace.client.errors import ClientError
from pinnace.client.interface import Backend
from pinnace.client.server import ServerBackend
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import BACKUPS
from pinnace.storage.errors import StorageError

_Change = Callable[[Backend, JSONObject], Awaitable[str]]
"""Changes one backup; returns what to print."""


def hold(ctx: click.Context, options: BackupHoldOptions) -> None:
    """Hold the named backups. Raises CommandError."""

    async def change(backend: Backend, backup: JSONObject) -> str:
        name = backup["metadata"]["name"]
        if cells.phase(backup) == BackupPhase.DELETING:
            raise CommandError(f"backup {name} is being deleted: it cannot be held any more")
        if not options.reason and (reason := await _reason_of(backend, backup)):
            return f'Backup "{name}" is held already: {reason}'
        if isinstance(backend, ServerBackend):
            await _annotate(backend, backup, options.reason)
        else:
            from pinnace.cli.common.holds import hold_beside

            await hold_beside(backend, name, options.reason)
        return f'Backup "{name}" is held: nothing deletes it until `backup release`.'

    _each(settings_of(ctx), options.names, change)


async def _reason_of(backend: Backend, backup: JSONObject) -> str:
    """The reason of the hold that a backup has already, which no other without one replaces; or empty."""
    if isinstance(backend, ServerBackend):
        return hold_of(backup) or ""
    from pinnace.cli.common.holds import hold_in_location
    from pinnace.client.location import LocationBackend

    assert isinstance(backend, LocationBackend)
    return await hold_in_location(backend, backup["metadata"]["name"]) or ""


def release(ctx: click.Context, options: BackupReleaseOptions) -> None:
    """Release the named backups. Raises CommandError."""

    async def change(backend: Backend, backup: JSONObject) -> str:
        name = backup["metadata"]["name"]
        if not isinstance(backend, ServerBackend):
            from pinnace.cli.common.holds import release_beside

            was_held = await release_beside(backend, backup)
            return f'Backup "{name}" is {"released" if was_held else "not held"}.'
        if hold_of(backup) is None:
            return f'Backup "{name}" is not held in this cluster; a file in its location may hold it.'
        await _annotate(backend, backup, None)
        return f'Backup "{name}" is released.'

    _each(settings_of(ctx), options.names, change)


def _each(settings: Settings, names: Sequence[str], change: _Change) -> None:
    async def work() -> list[str]:
        errors = []
        async with open_backend(settings) as backend:
            for name in dict.fromkeys(names):
                try:
                    click.echo(await change(backend, await backend.object("backups", name)))
                except (KubeError, StorageError, ClientError, CommandError) as error:
                    errors.append(str(error))
        return errors

    if errors := run_async(work()):
        raise CommandError(aggregate(errors))


async def _annotate(backend: ServerBackend, backup: JSONObject, reason: str | None) -> None:
    metadata = backup["metadata"]
    patch = {"metadata": {"uid": metadata["uid"], "annotations": {labels.HOLD: reason}}}
    await backend.client.patch(BACKUPS, metadata["name"], patch, metadata["namespace"])
