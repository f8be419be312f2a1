"""What `schedule describe` does. (docs/spec: CLI 6)"""

from collections.abc import Sequence
from typing import Any

import click

from pinnace.cli.connect import open_cluster, run_async
from pinnace.cli.describe_schedule import describe_schedule
from pinnace.cli.objects import find, server_settings
from pinnace.cli.output import printable
from pinnace.cli.server_kinds import SCHEDULE


def describe(ctx: click.Context, names: Sequence[str], selector: str) -> None:
    """Print the descriptions of the named schedules or of all."""
    settings = server_settings(ctx, "schedule describe")

    async def work() -> list[dict[str, Any]]:
        async with open_cluster(settings) as client:
            return await find(client, settings, SCHEDULE, names, selector)

    texts = [describe_schedule(schedule, colour=settings.colour) for schedule in run_async(work())]
    if texts:
        click.echo(printable("\n\n\n".join(texts)), color=settings.colour)
