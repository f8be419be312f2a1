"""`delete` of all nouns, with a server or in a location. (docs/spec: CLI 4.4, 5.2, 6, 7.4)"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import click

from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.cli.backend.interface import NotFound
from pinnace.cli.common.get import settings_for
from pinnace.cli.common.options import DeleteOptions
from pinnace.cli.connect import run_async
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.kinds import KINDS, Kind
from pinnace.cli.output.prompt import confirmed, exactly_one
from pinnace.cli.settings import Settings
from pinnace.kube.errors import KubeError
from pinnace.storage.errors import StorageError


def delete(ctx: click.Context, noun: str, options: DeleteOptions) -> None:
    """Delete the chosen objects; errors, such as missing objects, are reported at the end, all at once."""
    kind = KINDS[noun]
    settings = settings_for(ctx, kind, "delete")
    exactly_one(len(options.names), options.all, options.selector, noun)
    selector = Selector.from_label_selector(options.selector)
    if options.selector is not None and selector.empty:
        raise InvalidInput(f"--selector must not be empty; use --all to delete all {noun}s")
    if options.restic_password_file and settings.location is None:
        raise InvalidInput("--restic-password-file goes with --location; a server knows the password")
    if not options.confirm and not confirmed():
        return
    errors = run_async(_delete(settings, kind, options, str(selector)))
    if errors:
        raise CommandError(aggregate(errors))


async def _delete(settings: Settings, kind: Kind, options: DeleteOptions, selector: str) -> list[str]:
    """Delete the named objects, or those that the selector matches. Returns the errors."""
    names: Sequence[str] = list(dict.fromkeys(options.names))
    async with open_deleter(settings, kind, options) as deleter:
        errors: list[str] = []
        chosen = [] if names else await deleter.matching(selector)
        for name in names:
            try:
                chosen.append(await deleter.named(name))
            except NotFound as error:
                errors.append(str(error))
        if not chosen and not errors:
            click.echo(f"No {kind.noun}s found")
        for obj in chosen:
            try:
                text = await deleter.delete(obj)
            except (KubeError, StorageError, CommandError) as error:
                errors.append(str(error))
            else:
                click.echo(text.format(obj["metadata"]["name"]))
        return errors


class Deleter(Protocol):
    """What `delete` needs: deletes the objects of one kind."""

    async def named(self, name: str) -> JSONObject:
        """The object of that name. Raises NotFound."""
        ...

    async def matching(self, selector: str) -> list[JSONObject]:
        """The objects that the label selector text matches; all for an empty one."""
        ...

    async def delete(self, obj: JSONObject) -> str:
        """Delete the object. Returns the message to print, with `{}` for its name.

        Raises:
            CommandError, KubeError, StorageError: it was not deleted, or not completely.
        """
        ...


@asynccontextmanager
async def open_deleter(settings: Settings, kind: Kind, options: DeleteOptions) -> AsyncIterator[Deleter]:
    """What deletes the objects of a kind: the files of the location, or through the server in the cluster."""
    if settings.location is not None:
        from pinnace.cli.backend.location import LocationBackend
        from pinnace.cli.common.location_deletion import LocationDeleter

        async def delete_volume_data(location: LocationBackend, backup: str) -> None:
            # Loaded here: it takes longer than deleting a restore.
            from pinnace.cli.backup.deletion import delete_volume_data

            await delete_volume_data(settings, location, backup, options)

        async with LocationBackend.open(settings.location) as local:
            yield LocationDeleter(local, kind, delete_volume_data=delete_volume_data)
    else:
        from pinnace.cli.backend.server import ServerBackend
        from pinnace.cli.common.server_deletion import ServerDeleter
        from pinnace.cli.connect import open_cluster

        async with open_cluster(settings) as client:
            yield ServerDeleter(ServerBackend(client, settings.namespace), kind, force=options.force)
