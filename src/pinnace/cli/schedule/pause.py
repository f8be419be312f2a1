"""What `schedule pause` and `schedule unpause` do. (docs/spec: BEY 7.1)"""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from pinnace.api.meta import LabelSelector
from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.cli.backend.interface import open_backend
from pinnace.cli.backend.objects import find, server_settings
from pinnace.cli.backend.server_kinds import SCHEDULE
from pinnace.cli.connect import open_cluster, run_async
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.output.prompt import exactly_one
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the flags ask for.

    Attributes:
        everything: all schedules of the namespace.
        skip_immediately: what to write into the schedules; None leaves it as it is.
    """

    paused: bool
    names: Sequence[str]
    everything: bool
    selector: LabelSelector | None
    skip_immediately: bool | None

    @property
    def verb(self) -> str:
        """The command's name."""
        return "pause" if self.paused else "unpause"


def change(ctx: click.Context, request: Request) -> None:
    """Pause or unpause the chosen schedules of the namespace. Raises InvalidInput and CommandError."""
    settings = server_settings(ctx, f"schedule {request.verb}")
    exactly_one(len(request.names), request.everything, request.selector, SCHEDULE.noun)
    chosen = Selector.from_label_selector(request.selector)
    if request.selector is not None and chosen.empty:
        raise InvalidInput("--selector must not be empty; use --all for all schedules")
    run_async(_change(settings, request, str(chosen)))


async def _change(settings: Settings, request: Request, selector: str) -> None:
    async with open_backend(settings) as backend:
        names = list(dict.fromkeys(request.names))
        schedules = await find(backend, SCHEDULE, names, selector)
    if not schedules:
        click.echo("No schedules found")
    async with open_cluster(settings) as client:
        for schedule in schedules:
            await _change_one(client, schedule, request)


async def _change_one(client: KubeClient, schedule: JSONObject, request: Request) -> None:
    metadata, spec = schedule["metadata"], schedule.get("spec") or {}
    name = metadata["name"]
    if (spec.get("paused") is True) == request.paused:
        click.echo(f"Schedule {name} is already {request.verb}d, skip")
        return
    patch: JSONObject = {"spec": {"paused": request.paused}}
    if request.skip_immediately is not None:
        patch["spec"]["skipImmediately"] = request.skip_immediately
    stored = await client.patch(velero(SCHEDULE.plural), name, patch, metadata["namespace"])
    if ((stored.get("spec") or {}).get("paused") is True) != request.paused:
        raise CommandError(
            f"Schedule {name} was not {request.verb}d: its CustomResourceDefinition in the cluster has no "
            "field spec.paused; run `pinnace install --crds-only --apply` to add it"
        )
    click.echo(f"Schedule {name} {request.verb}d successfully")
