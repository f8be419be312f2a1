"""Implements `backup-location rekey`."""

import click

from pinnace.api.values.counts import counted
from pinnace.cli.common.outcome import say
from pinnace.cli.connect import caller, run_async, settings_of
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.identities import given_identities
from pinnace.cli.location.rekey import RekeyOptions
from pinnace.cli.settings import Settings
from pinnace.client.location import LocationBackend
from pinnace.storage.errors import StoreConfigError, UnreadableObject


def rekey_all(ctx: click.Context, options: RekeyOptions) -> None:
    """Write the key files. A key that cannot be opened is an error, and the others are written."""
    settings = settings_of(ctx)
    if settings.location is None:
        raise InvalidInput("backup-location rekey works on a location without a server: give --location")
    failed = run_async(_rekey(settings, settings.location))
    if failed:
        raise CommandError("\n".join(failed))


async def _rekey(settings: Settings, url: str) -> list[str]:
    failed: list[str] = []
    written = 0
    async with LocationBackend.open(url, caller(), identities=given_identities(settings)) as location:
        store = location.store
        names = [(name, False) for name in await store.list_backups()]
        names += [(name, True) for name in await store.list_restores()]
        for name, restore in names:
            try:
                written += await store.rekey(name, restore=restore)
            except StoreConfigError as error:
                raise InvalidInput(str(error)) from error
            except UnreadableObject as error:
                failed.append(str(error))
        say(f"Wrote {counted(written, 'key file')} in {location.title}.")
    return failed
