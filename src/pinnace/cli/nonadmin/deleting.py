"""The work of `nonadmin ... delete`."""

from collections.abc import Sequence
from typing import Final

import click

from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.connect import caller, run_async
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.guard import printable
from pinnace.cli.nonadmin.commands import TenantDeleteOptions
from pinnace.cli.nonadmin.kinds import KINDS, Home, TenantKind, open_home
from pinnace.cli.output.prompt import confirmed
from pinnace.client.server import ServerBackend
from pinnace.kube.errors import KubeError, NotFound

_DOING: Final = "Deleting from"


def delete(ctx: click.Context, noun: str, options: TenantDeleteOptions) -> None:
    """Delete the named requests, and report all errors at the end."""
    kind = KINDS[noun]
    if not options.names:
        raise InvalidInput(f"the name of a {noun} is required")
    for_good = noun == "backup" and not options.keep_data
    names, errors = list(dict.fromkeys(options.names)), list[str]()
    if not options.confirm:
        names, errors = run_async(_found(ctx, kind, names))
        if names:
            click.echo("To be deleted:")
            for name in names:
                click.echo(printable(f"  {noun} {name}{' with all that is stored' if for_good else ''}"))
            if not confirmed():
                return

    async def work() -> list[str]:
        async with open_home(ctx) as home:
            if options.confirm:
                say_cluster(home.client, _DOING)
            return [
                error for name in names if (error := await _delete(home, kind, noun, name, for_good=for_good))
            ]

    if names:
        errors += run_async(work())
    if errors:
        raise CommandError(aggregate(errors))


async def _found(ctx: click.Context, kind: TenantKind, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names that exist, and the errors of the others."""
    found, errors = list[str](), list[str]()
    async with open_home(ctx) as home:
        say_cluster(home.client, _DOING)
        for name in names:
            try:
                await home.client.get(kind.resource, name, home.namespace)
            except NotFound as error:
                errors.append(await _not_found(home, kind, name, error))
            else:
                found.append(name)
    return found, errors


async def _not_found(home: Home, kind: TenantKind, name: str, error: NotFound) -> str:
    """The message with similar names. Raises the error if the cluster does not serve the kind."""
    if not error.reason:
        raise error
    backend = ServerBackend(home.client, home.namespace, caller())
    return f"{error}{await backend.instead_of(kind.resource, name)}"


async def _delete(home: Home, kind: TenantKind, noun: str, name: str, *, for_good: bool) -> str:
    """Delete one request. Returns the error, empty if there is none."""
    try:
        if for_good:
            await home.client.patch(kind.resource, name, {"spec": {"deleteBackup": True}}, home.namespace)
            click.echo(f'Deletion of backup "{name}" with all that is stored was asked for.')
        else:
            await home.client.delete(kind.resource, name, home.namespace)
            click.echo(f'Deletion of {noun} "{name}" was asked for.')
    except NotFound as error:
        return await _not_found(home, kind, name, error)
    except KubeError as error:
        return str(error)
    return ""
