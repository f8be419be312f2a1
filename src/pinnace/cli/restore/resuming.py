"""The work of `restore resume`. (docs/adr/131)"""

from typing import Final

import click

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.timing import poll
from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject, text
from pinnace.api.resuming import why_not_resumable
from pinnace.api.values.times import format_time
from pinnace.api.velero.restore import Restore
from pinnace.cli.common import outcome
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.common.waiting import warn_of_absence
from pinnace.cli.connect import caller, command_line, open_cluster, run_async, settings_of
from pinnace.cli.errors import CommandError, ExitCode, InvalidInput
from pinnace.cli.kinds import RESTORE
from pinnace.cli.restore.resume import ResumeOptions
from pinnace.cli.settings import Settings
from pinnace.client.server import ServerBackend
from pinnace.client.server_status import answered, ask_server, is_ours
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import RESTORES

_STATUS_SECONDS: Final = 10.0
_TAKEN_SECONDS: Final = 600.0
"""How long --wait waits for the server to take the request: other restores may be in front."""


def resume(ctx: click.Context, options: ResumeOptions) -> int:
    """Resume the restore, or ask the server for it. Returns the exit code."""
    settings, name = settings_of(ctx), options.names[0]
    outcome.check(settings, options)
    if settings.location is None:
        return run_async(_ask(settings, name, options))
    again = command_line(settings, "restore", "resume", name)
    return run_async(
        _resume(settings, name, options),
        interrupted=f"Interrupted: what was restored so far stays. `{again}` continues.",
    )


async def _resume(settings: Settings, name: str, options: ResumeOptions) -> int:
    """Resume the restore without a server. Returns the exit code."""
    from pinnace.cli.common.telling import CURRENT_CLUSTER, ToldRun, messages_of
    from pinnace.cli.restore.local import resume_restore

    messages = messages_of(options.messages_file)
    named = Restore(metadata=ObjectMeta(name=name, namespace=settings.namespace))
    async with ToldRun(messages, named, settings.kubecontext or CURRENT_CLUSTER) as told:
        return await resume_restore(settings, name, progress=options.progress, ended=told.ended)


async def _ask(settings: Settings, name: str, options: ResumeOptions) -> int:
    """Ask the server to resume a restore."""
    async with open_cluster(settings) as client:
        backend = ServerBackend(client, settings.namespace, caller())
        found = await backend.object(RESTORES.name, name)
        if problem := why_not_resumable(found):
            raise InvalidInput(f"restore {name} cannot be resumed: {problem}")
        await _check_server(client, settings.namespace)
        say_cluster(client, "Asking for a restore into")
        request = format_time(SYSTEM_CLOCK.now())
        patch = {"metadata": {"annotations": {labels.RESUME_REQUESTED: request}}}
        await client.patch(RESTORES, name, patch, settings.namespace)
        click.echo(f'Request to resume restore "{name}" submitted successfully.')
        if options.wait:
            taken = await _taken(client, settings.namespace, name)
            return await outcome.wait(client, settings, RESTORE, taken, options)
        outcome.say_where_to_look(settings, RESTORE, name)
        await warn_of_absence(backend, RESTORE.noun)
        return ExitCode.OK


async def _check_server(client: KubeClient, namespace: str) -> None:
    """Refuse where no server would see the request. Raises CommandError."""
    answer = await ask_server(client, namespace, _STATUS_SECONDS)
    if answered(answer) and not is_ours(answer):
        raise CommandError(
            f"the server in namespace {namespace} is not Pinnace's, and another one resumes no restore"
        )


async def _taken(client: KubeClient, namespace: str, name: str, clock: Clock = SYSTEM_CLOCK) -> JSONObject:
    """Wait until the server has answered the request; return the Restore. Raises CommandError."""
    found: JSONObject = {}

    async def taken() -> bool:
        nonlocal found
        found = await client.get(RESTORES, name, namespace)
        return not text(found, "metadata", "annotations", labels.RESUME_REQUESTED)

    if not await poll(taken, clock=clock, timeout_seconds=_TAKEN_SECONDS):
        raise CommandError(
            f"the server did not take the request within {_TAKEN_SECONDS / 60:g} minutes; it stays, and the"
            " server takes it when it runs"
        )
    return found
