"""The work of `schedule pause` and `schedule unpause`. (docs/spec: BEY 7.1)"""

import click

from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.cli.backends import open_backend
from pinnace.cli.common.get import find, say_why_empty, server_settings
from pinnace.cli.connect import open_cluster, run_async
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.kinds import SCHEDULE
from pinnace.cli.output.prompt import exactly_one
from pinnace.cli.schedule.pause import PauseOptions
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero


def change(ctx: click.Context, verb: str, options: PauseOptions) -> None:
    """Pause or unpause the chosen schedules, as the verb says. Raises InvalidInput, CommandError."""
    settings = server_settings(ctx, f"schedule {verb}")
    exactly_one(len(options.names), options.all, options.selector, SCHEDULE.noun)
    chosen = Selector.from_label_selector(options.selector)
    if options.selector is not None and chosen.empty:
        raise InvalidInput("--selector must not be empty; use --all for all schedules")
    run_async(_change(settings, options, str(chosen), verb))


async def _change(settings: Settings, options: PauseOptions, selector: str, verb: str) -> None:
    async with open_backend(settings) as backend:
        names = list(dict.fromkeys(options.names))
        schedules = await find(backend, SCHEDULE, names, selector)
    if not schedules:
        click.echo("No schedules found")
        if not selector:
            await say_why_empty(settings, SCHEDULE)
    async with open_cluster(settings) as client:
        for schedule in schedules:
            await _change_one(client, schedule, options, verb)


async def _change_one(client: KubeClient, schedule: JSONObject, options: PauseOptions, verb: str) -> None:
    paused = verb == "pause"
    metadata, spec = schedule["metadata"], schedule.get("spec") or {}
    name = metadata["name"]
    if (spec.get("paused") is True) == paused:
        click.echo(f"Schedule {name} is already {verb}d, skip")
        return
    patch: JSONObject = {"spec": {"paused": paused}}
    if options.skip_immediately is not None:
        patch["spec"]["skipImmediately"] = options.skip_immediately
    stored = await client.patch(velero(SCHEDULE.plural), name, patch, metadata["namespace"])
    if ((stored.get("spec") or {}).get("paused") is True) != paused:
        raise CommandError(
            f"Schedule {name} was not {verb}d: its CustomResourceDefinition in the cluster has no "
            "field spec.paused; run `pinnace install --crds-only --apply` to add it"
        )
    click.echo(f"Schedule {name} {verb}d successfully")
