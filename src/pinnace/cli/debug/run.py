"""Implements `debug`. (docs/spec: BEY 8.2)"""

import os
from pathlib import Path
from typing import Any

import click

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.values.counts import counted
from pinnace.cli.common.get import server_settings
from pinnace.cli.connect import open_cluster, run_async
from pinnace.cli.debug.bundle import Bundle, open_bundle
from pinnace.cli.debug.collect import Collector
from pinnace.cli.debug.commands import DebugOptions
from pinnace.cli.guard import complain
from pinnace.cli.settings import Settings


def debug(ctx: click.Context, options: DebugOptions) -> None:
    """Write the bundle and print where it is and which parts it lacks."""
    settings = server_settings(ctx, "debug")
    now = SYSTEM_CLOCK.now()
    path = Path(os.path.realpath(options.output or f"bundle-{now.astimezone():%Y-%m-%d-%H-%M-%S}.tar.gz"))
    bundle = run_async(_write(settings, path, options))
    for problem in bundle.problems:
        complain(f"WARNING: {problem}")
    click.echo(
        f"Wrote {path} with {counted(len(bundle.files), 'file')}. "
        "Secrets were taken out where they could be recognised; look through it before you hand it on."
    )


async def _write(settings: Settings, path: Path, options: DebugOptions) -> Bundle:
    backup, restore = options.backup, options.restore

    def on_part(what: str) -> None:
        if options.verbose:
            complain(f"Collecting {what}")

    async with open_cluster(settings) as client:
        found: dict[str, Any] = {}
        with open_bundle(path, clock=SYSTEM_CLOCK) as bundle:
            collector = Collector(client, settings, bundle, on_part)
            await collector.check_namespace()
            # A named object must exist; that is checked before anything takes time.
            for plural, name in (("backups", backup), ("restores", restore)):
                if name:
                    found[plural] = await collector.named(plural, name)
            await collector.versions()
            await collector.objects()
            await collector.logs()
            if backup:
                await collector.backup(found["backups"])
            if restore:
                await collector.restore(found["restores"])
        return bundle
