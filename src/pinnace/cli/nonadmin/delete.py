"""What `nonadmin ... delete` does."""

from collections.abc import Sequence

import click

from pinnace.cli.connect import run_async
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.nonadmin.kinds import KINDS, Home, TenantKind, open_home
from pinnace.cli.output.prompt import confirmed
from pinnace.kube.errors import KubeError


def delete(
    ctx: click.Context, noun: str, names: Sequence[str], *, confirm: bool, keep_data: bool = False
) -> None:
    """Delete the named requests; those that cannot be are reported at the end."""
    kind = KINDS[noun]
    if not names:
        raise InvalidInput(f"the name of a {noun} is required")
    if not confirm and not confirmed():
        return
    for_good = noun == "backup" and not keep_data

    async def work() -> list[str]:
        async with open_home(ctx) as home:
            return [
                error
                for name in dict.fromkeys(names)
                if (error := await _delete(home, kind, noun, name, for_good=for_good))
            ]

    errors = run_async(work())
    if errors:
        raise CommandError(aggregate(errors))


async def _delete(home: Home, kind: TenantKind, noun: str, name: str, *, for_good: bool) -> str:
    """The error, if there is one."""
    try:
        if for_good:
            await home.client.patch(kind.resource, name, {"spec": {"deleteBackup": True}}, home.namespace)
            click.echo(f'Deletion of backup "{name}" with all that is stored was asked for.')
        else:
            await home.client.delete(kind.resource, name, home.namespace)
            click.echo(f'Deletion of {noun} "{name}" was asked for.')
    except KubeError as error:
        return str(error)
    return ""
