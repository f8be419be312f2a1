"""Implements `backup-location get`. (docs/spec: CLI 7.2)"""

from collections.abc import Sequence

import click

from pinnace.api.objects import JSONObject
from pinnace.cli.backends import open_backend
from pinnace.cli.common.get import get as get_objects
from pinnace.cli.common.get import print_list, server_settings, watch
from pinnace.cli.connect import run_async
from pinnace.cli.kinds import BACKUP_LOCATION
from pinnace.cli.location.backup_get import BackupLocationGetOptions
from pinnace.client.interface import Backend


def get(ctx: click.Context, options: BackupLocationGetOptions) -> None:
    """Print the named locations or all of them."""
    if not options.default:
        get_objects(ctx, BACKUP_LOCATION.noun, options)
        return
    output = options.printed(default="table")
    settings = server_settings(ctx, "backup-location get")
    if options.watch:
        watch(
            settings,
            BACKUP_LOCATION,
            options,
            output,
            lambda each: bool((each.get("spec") or {}).get("default")),
        )
        return

    async def work() -> list[JSONObject]:
        async with open_backend(settings) as backend:
            return await _defaults(backend, options.names, options.selector)

    print_list(run_async(work()), BACKUP_LOCATION, output)


async def _defaults(backend: Backend, names: Sequence[str], selector: str) -> list[JSONObject]:
    """The default locations; of the named ones the first that is one. (docs/spec: CLI 7.2)"""
    for name in names:
        location = await backend.object(BACKUP_LOCATION.plural, name)
        if (location.get("spec") or {}).get("default"):
            return [location]
    found = [] if names else await backend.objects(BACKUP_LOCATION.plural, selector)
    return [location for location in found if (location.get("spec") or {}).get("default")]
