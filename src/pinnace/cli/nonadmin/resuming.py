"""The work of `nonadmin restore resume`. (docs/adr/131)"""

from typing import Final

import click

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.timing import poll
from pinnace.api.labels import RESUME_REQUESTED
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import RestorePhase
from pinnace.api.values.shell_words import argument
from pinnace.api.values.times import format_time
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.connect import caller, pasteable, run_async
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.nonadmin.commands import TenantResumeOptions
from pinnace.cli.nonadmin.kinds import Home, open_home, reason
from pinnace.cli.nonadmin.reading import TenantBackend
from pinnace.nonadmin.flows.conditions import RESUMED_CONDITION, condition
from pinnace.nonadmin.objects import NON_ADMIN_RESTORES

_ANSWER_SECONDS: Final = 30.0


def resume(ctx: click.Context, options: TenantResumeOptions) -> None:
    """Ask for the restore to be continued, and print the answer."""
    (name,) = options.names

    async def work() -> None:
        async with open_home(ctx) as home:
            request = await TenantBackend(home.client, home.namespace, caller()).named(
                NON_ADMIN_RESTORES, name
            )
            phase = text(request, "status", "veleroRestore", "status", "phase")
            if phase != RestorePhase.FAILED:
                raise InvalidInput(f"restore {name} cannot be resumed: {_why_not(request, phase)}")
            say_cluster(home.client, "Sending the request to")
            await _ask(home, name)

    run_async(work())


def _why_not(request: JSONObject, phase: str) -> str:
    """Why there is nothing to resume."""
    if phase:
        return f"it was not interrupted; its phase is {phase}"
    refused = reason(request)
    return f"it has not begun{f', as it was refused: {refused}' if refused else ''}"


async def _ask(home: Home, name: str, clock: Clock = SYSTEM_CLOCK) -> None:
    """Ask, and wait for the answer of self-service. Raises CommandError if it refuses."""
    patch = {"metadata": {"annotations": {RESUME_REQUESTED: format_time(clock.now())}}}
    await home.client.patch(NON_ADMIN_RESTORES, name, patch, home.namespace)
    look = pasteable(f"`nonadmin restore describe {argument(name)}`")
    found: JSONObject = {}

    async def answered() -> bool:
        nonlocal found
        found = await home.client.get(NON_ADMIN_RESTORES, name, home.namespace)
        return not text(found, "metadata", "annotations", RESUME_REQUESTED)

    if not await poll(answered, clock=clock, timeout_seconds=_ANSWER_SECONDS):
        accepted = condition(mapping(found, "status"), "Accepted")
        if text(accepted, "status") == "False":
            raise CommandError(f"restore {name} cannot be resumed: {text(accepted, 'message')}")
        raise CommandError(
            f"self-service did not answer within {_ANSWER_SECONDS:g} seconds; the request stays, and {look}"
            " shows the answer in its condition Resumed"
        )
    answer = condition(mapping(found, "status"), RESUMED_CONDITION)
    if text(answer, "status") != "True":
        raise CommandError(f"restore {name} cannot be resumed: {text(answer, 'message')}")
    click.echo(f'Request to resume restore "{name}" passed on to the server.')
    click.echo(f"Run {look} to see how it goes.")
