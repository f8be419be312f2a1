"""`delete` of all nouns, with a server or in a location. (docs/spec: CLI 4.4, 5.2, 6, 7.4)"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import click

from pinnace.api.objects import JSONObject
from pinnace.api.retention.removal import RemovalReason
from pinnace.api.selection.selectors import Selector
from pinnace.cli.common.get import say_why_empty, settings_for
from pinnace.cli.common.options import DeleteOptions
from pinnace.cli.connect import caller, run_async
from pinnace.cli.declaring.commands import loaded
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.guard import complain, printable
from pinnace.cli.kinds import KINDS, PrintedKind
from pinnace.cli.output.prompt import confirmed, exactly_one
from pinnace.cli.settings import Settings
from pinnace.client.errors import ClientError, NoSuchObject
from pinnace.kube.errors import KubeError
from pinnace.storage.errors import StorageError

if TYPE_CHECKING:
    from pinnace.client.location import LocationBackend


VolumeDataDeletion = Callable[[Settings, "LocationBackend", str, DeleteOptions], Awaitable[None]]
"""Deletes the volume data of a backup in a location, by name; raises CommandError if the backup must stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The objects to delete, and how.

    Attributes:
        selector: the label selector as text; empty for all.
        volume_data: the `VolumeDataDeletion`, as `module:function`; empty for kinds without such data.
        reason: why they are deleted.
    """

    settings: Settings
    kind: PrintedKind
    options: DeleteOptions
    selector: str
    volume_data: str
    reason: RemovalReason = RemovalReason.REQUEST


def delete(ctx: click.Context, noun: str, volume_data: str, options: DeleteOptions) -> None:
    """Delete the chosen objects; errors, such as missing objects, are reported at the end, all at once."""
    kind = KINDS[noun]
    settings = settings_for(ctx, kind, "delete")
    exactly_one(len(options.names), options.all, options.selector, noun)
    selector = Selector.from_label_selector(options.selector)
    if options.selector is not None and selector.empty:
        raise InvalidInput(f"--selector must not be empty; use --all to delete all {noun}s")
    if options.restic_password_file and settings.location is None:
        raise InvalidInput("--restic-password-file goes with --location; a server knows the password")
    request = _Request(
        settings=settings, kind=kind, options=options, selector=str(selector), volume_data=volume_data
    )
    errors: list[str] = []
    if options.confirm:
        errors += run_async(_choose_and_delete(request))
    else:
        # Only the listed objects are deleted, not those that match by the time of the answer.
        chosen, errors = run_async(_listed(request))
        if chosen:
            if errors:  # before the question: whoever answers it must know what is not there
                complain(f"{CommandError.prefix}{aggregate(errors)}")
            confirmed_errors = run_async(_delete(request, chosen)) if confirmed() else []
            if errors and not confirmed_errors:
                raise CommandError("")  # it was told
            errors = confirmed_errors
    if errors:
        raise CommandError(aggregate(errors))


async def delete_objects(
    settings: Settings,
    kind: PrintedKind,
    options: DeleteOptions,
    names: Sequence[str],
    *,
    volume_data: str,
    reason: RemovalReason,
) -> list[str]:
    """Delete the objects of these names, which the user has confirmed. Returns the errors."""
    request = _Request(
        settings=settings, kind=kind, options=options, selector="", volume_data=volume_data, reason=reason
    )
    async with _open_deleter(request, names_place=True) as deleter:
        errors = []
        for name in names:
            try:
                found = await deleter.named(name)
            except NoSuchObject:
                continue  # somebody else has deleted it
            errors += await _delete_each(deleter, [found])
        return errors


async def _choose_and_delete(request: _Request) -> list[str]:
    async with _open_deleter(request, names_place=True) as deleter:
        chosen, errors = await _chosen(deleter, request)
        return errors + await _delete_each(deleter, chosen)


async def _listed(request: _Request) -> tuple[list[JSONObject], list[str]]:
    """Print what would be deleted. Returns the objects, and the errors of names that were not found."""
    async with _open_deleter(request, names_place=True) as deleter:
        chosen, errors = await _chosen(deleter, request)
        lines = [await deleter.summary(obj) for obj in chosen[:_MOST_LISTED]]
    if chosen:
        click.echo("To be deleted:")
        for line in lines:
            click.echo(printable(f"  {line}"))
        if len(chosen) > _MOST_LISTED:
            more = len(chosen) - _MOST_LISTED
            click.echo(f"  and {more} more: {len(chosen)} {request.kind.noun}s in all")
    return chosen, errors


async def _chosen(deleter: "Deleter", request: _Request) -> tuple[list[JSONObject], list[str]]:
    """The named objects, or those that the selector matches, and the errors."""
    names, errors = list(dict.fromkeys(request.options.names)), []
    chosen = [] if names else await deleter.matching(request.selector)
    for name in names:
        try:
            chosen.append(await deleter.named(name))
        except NoSuchObject as error:
            errors.append(str(error))
    if not chosen and not errors:
        click.echo(f"No {request.kind.noun}s found")
        if not request.selector:
            await say_why_empty(request.settings, request.kind)
    return chosen, errors


async def _delete(request: _Request, chosen: Sequence[JSONObject]) -> list[str]:
    async with _open_deleter(request) as deleter:
        return await _delete_each(deleter, chosen)


async def _delete_each(deleter: "Deleter", chosen: Sequence[JSONObject]) -> list[str]:
    """Delete the objects. Returns the errors."""
    errors: list[str] = []
    for obj in chosen:
        try:
            text = await deleter.delete(obj)
        except (KubeError, StorageError, ClientError, CommandError) as error:
            errors.append(str(error))
        else:
            click.echo(text.format(obj["metadata"]["name"]))
    return errors


_MOST_LISTED: Final = 20


class Deleter(Protocol):
    """Deletes the objects of one kind, for `delete`."""

    async def named(self, name: str) -> JSONObject:
        """The object of that name. Raises NoSuchObject."""
        ...

    async def matching(self, selector: str) -> list[JSONObject]:
        """The objects that the label selector text matches; all for an empty one."""
        ...

    async def summary(self, obj: JSONObject) -> str:
        """The object, and how many others are deleted with it, in one line; best effort."""
        ...

    async def delete(self, obj: JSONObject) -> str:
        """Delete the object. Returns the message to print, with `{}` for its name.

        Raises:
            CommandError, ClientError, KubeError, StorageError: it was not deleted, or not completely.
        """
        ...


@asynccontextmanager
async def _open_deleter(request: _Request, *, names_place: bool = False) -> AsyncIterator[Deleter]:
    """The deleter of a kind: of files in the location, or of objects of the server in the cluster.

    Args:
        names_place: print from where things are deleted: `PINNACE_LOCATION` or the context may be of
            yesterday. (docs/adr/104)
    """
    settings, kind, options = request.settings, request.kind, request.options
    if settings.location is not None:
        from pinnace.cli.common.location_deletion import LocationDeleter
        from pinnace.cli.identities import given_identities
        from pinnace.client.location import LocationBackend

        async def delete_volume_data(location: LocationBackend, backup: str) -> None:
            if request.volume_data:
                deletion: VolumeDataDeletion = loaded(request.volume_data)
                await deletion(settings, location, backup, options)

        async with LocationBackend.open(
            settings.location, caller(), identities=given_identities(settings)
        ) as local:
            if names_place:
                complain(f"Deleting from {local.title}.")
            yield LocationDeleter(local, kind, delete_volume_data=delete_volume_data, reason=request.reason)
    else:
        from pinnace.cli.common.cluster import say_cluster
        from pinnace.cli.common.server_deletion import ServerDeleter
        from pinnace.cli.connect import open_cluster
        from pinnace.client.server import ServerBackend

        async with open_cluster(settings) as client:
            if names_place:
                say_cluster(client, "Deleting from")
            server = ServerBackend(client, settings.namespace, caller())
            yield ServerDeleter(server, kind, force=options.force, reason=request.reason)
