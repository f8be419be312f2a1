"""The work of `uninstall`: asks, and prints what is removed. (docs/spec: CLI 11.4)"""

import click

from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.common.get import server_settings
from pinnace.cli.connect import open_cluster, run_async
from pinnace.cli.errors import CommandError, aggregate
from pinnace.cli.guard import complain
from pinnace.cli.output.prompt import confirmed
from pinnace.cli.settings import Settings
from pinnace.installing.observer import InstallObserver
from pinnace.installing.removal import losses, remove

_NOT_AWAITED = (
    "Pinnace is being uninstalled: namespace {} and the custom resource definitions may be there for some "
    "seconds more, and nothing can be installed before they are gone."
)
_DOING = "Uninstalling from"


class _Printer(InstallObserver):
    """Prints steps, and a dot for each second of waiting."""

    def __init__(self) -> None:
        self._waits = False

    def say(self, text: str) -> None:
        click.echo(text)

    def warn(self, text: str) -> None:
        complain(f"\n{text}" if self._waits else text)

    def wait(self) -> None:
        self._waits = True
        click.echo(".", nl=False)

    def ended(self) -> None:
        if self._waits:
            click.echo()


def uninstall(ctx: click.Context, *, wait: bool, force: bool) -> None:
    """Ask, remove everything that can be removed, and report the rest."""
    settings = server_settings(ctx, "uninstall")
    if not force:
        lost = run_async(_losses(settings))
        click.echo(
            f"You are about to uninstall Pinnace: namespace {settings.namespace} with all that is in it, its "
            "access rights, and the custom resource definitions. All Backup, Restore and Schedule objects of "
            "the cluster go with these, those of a Velero server too. What the backup locations hold stays."
        )
        if lost:
            click.echo(f"To be deleted with them: {lost}.")
        if not confirmed("--force"):
            return
    errors = run_async(_uninstall(settings, wait=wait, names_cluster=force))
    if errors:
        text = aggregate(errors)
        click.echo(f'Errors while attempting to uninstall Pinnace: "{text}"', nl=False)
        raise CommandError(text)
    click.echo("Pinnace is uninstalled." if wait else _NOT_AWAITED.format(settings.namespace))


async def _losses(settings: Settings) -> str:
    async with open_cluster(settings) as client:
        say_cluster(client, _DOING)
        return await losses(client)


async def _uninstall(settings: Settings, *, wait: bool, names_cluster: bool) -> list[str]:
    async with open_cluster(settings) as client:
        if names_cluster:
            say_cluster(client, _DOING)
        return await remove(client, settings.namespace, _Printer(), wait=wait)
