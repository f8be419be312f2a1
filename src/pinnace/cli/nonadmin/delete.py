"""The work of `nonadmin ... delete`."""

import click

from pinnace.cli.backend.server import ServerBackend
from pinnace.cli.connect import run_async
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.guard import printable
from pinnace.cli.nonadmin.kinds import KINDS, Home, TenantKind, open_home
from pinnace.cli.nonadmin.options import TenantDeleteOptions
from pinnace.cli.output.prompt import confirmed
from pinnace.kube.errors import KubeError, NotFound


def delete(ctx: click.Context, noun: str, options: TenantDeleteOptions) -> None:
    """Delete the named requests, and report all errors at the end."""
    kind = KINDS[noun]
    if not options.names:
        raise InvalidInput(f"the name of a {noun} is required")
    for_good = noun == "backup" and not options.keep_data
    if not options.confirm:
        click.echo("To be deleted:")
        for name in dict.fromkeys(options.names):
            click.echo(printable(f"  {noun} {name}{' with all that is stored' if for_good else ''}"))
        if not confirmed():
            return

    async def work() -> list[str]:
        async with open_home(ctx) as home:
            return [
                error
                for name in dict.fromkeys(options.names)
                if (error := await _delete(home, kind, noun, name, for_good=for_good))
            ]

    errors = run_async(work())
    if errors:
        raise CommandError(aggregate(errors))


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
        if not error.reason:
            raise  # the cluster does not serve the kind
        backend = ServerBackend(home.client, home.namespace)
        return f"{error}{await backend.instead_of(kind.resource, name)}"
    except KubeError as error:
        return str(error)
    return ""
