"""Waits for a server to finish a run, and shows its progress. (docs/spec: CLI 4.1)"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import click
from msgspec.structs import replace

from pinnace.api import phases
from pinnace.api.objects import JSONObject, reasons
from pinnace.api.values.shell_words import argument
from pinnace.cli.connect import pasteable
from pinnace.cli.guard import complain, printable
from pinnace.cli.output.cells import empty_warning, status
from pinnace.cli.output.cells import phase as phase_of
from pinnace.cli.output.summary import numbers_of
from pinnace.cli.progress.activity import activity_of
from pinnace.cli.progress.away import away
from pinnace.cli.progress.state import State
from pinnace.cli.progress.view import ProgressView
from pinnace.cli.progress.volumes import VolumeWatch
from pinnace.client.lease import telling_of_absence
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, Gone, KubeError, NotFound
from pinnace.kube.resources import APIResource


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedRun:
    """The kind of run: its noun, the field that counts its items, how progress is shown."""

    what: str
    done_field: str
    progress: str = "auto"


async def wait_for_end(
    client: KubeClient, resource: APIResource, created: JSONObject, run: WaitedRun
) -> JSONObject | None:
    """Wait until the created object shows a final phase.

    Returns:
        The object in that phase, or None when it was deleted or can no longer be watched.
    """
    what, done_field = run.what, run.done_field
    click.echo(
        f"Waiting for {what} to complete. You may safely press ctrl-c to stop waiting - "
        f"your {what} will continue in the background."
    )
    name, namespace = created["metadata"]["name"], created["metadata"]["namespace"]
    volumes = VolumeWatch(what, name, namespace)
    ended: JSONObject | None = None
    problem: KubeError | None = None
    watched = _Watched(resource, created, done_field, current=created)
    view = ProgressView(what, form=run.progress, details=partial(_state, watched, volumes, client))
    client.silence.is_shown = run.progress != "none"
    telling = telling_of_absence(client, namespace, f"the {what}", complain)
    async with asyncio.TaskGroup() as group, telling as begun:
        watched.begun = begun
        helpers = [group.create_task(view.tick())]
        if run.progress != "none":
            helpers.append(group.create_task(_follow_volumes(client, volumes, begun)))
        try:
            ended = await _end(client, watched, view)
            if ended is not None:
                view.finish(_progress(ended).get(done_field) or 0)
        except KubeError as error:
            problem = error
        finally:
            for task in helpers:
                task.cancel()
            view.close()
            client.silence.is_shown = False  # by nothing from here on
    if problem is not None:
        click.echo(f"Error waiting: unable to watch {what}s: {problem}")
    elif ended is None:
        click.echo(f"The {what} was deleted while waiting for it.")
    else:
        phase, name = phase_of(ended), created["metadata"]["name"]
        look = pasteable(
            f"the commands `{what} describe {argument(name)}` and `{what} logs {argument(name)}`."
        )
        if phase == "FailedValidation":  # such a run has no log
            look = pasteable(f"the command `{what} describe {argument(name)}`.")
        click.echo(
            f"{what.capitalize()} completed with status: {phase}. You may check for more information using "
            f"{look}"
        )
        if phase != "FailedValidation":
            complain(f"{numbers_of(ended, _progress(ended).get(done_field) or 0)}.")
        for reason in reasons(ended):
            click.echo(printable(f"Reason: {reason}"))
        if warning := empty_warning(what, phase, _progress(ended).get(done_field) or 0):
            complain(warning)
    return ended


async def _follow_volumes(client: KubeClient, volumes: VolumeWatch, begun: asyncio.Event) -> None:
    await begun.wait()
    await volumes.follow(client)


def _state(watched: "_Watched", volumes: VolumeWatch, client: KubeClient, done: int, total: int) -> State:
    """The progress of the run as it is known now.

    While a server collects, what it writes into the status is an estimate that grows.
    """
    phase = phase_of(watched.current)
    now = activity_of(status(watched.current))
    return replace(
        now,
        done=done,
        total=total,
        at_least=phase in phases.COLLECTING and now.at_least,
        is_estimate=phase in phases.COLLECTING and now.is_estimate,
        phase=_explained(watched.current, phase),
        volumes=volumes.moving,
        volumes_done=volumes.done,
        volumes_total=volumes.total,
        away=away(client),
    )


def _explained(obj: JSONObject, phase: str) -> str:
    """The phase, with its meaning if that is not obvious; empty for InProgress."""
    if phase == "InProgress":
        return ""
    if phase == "New":
        return "New: no server has taken it yet"
    position = status(obj).get("queuePosition")
    return f"{phase}, position {position} in the queue" if phase == "Queued" and position else phase


PAUSE_SECONDS = 1.0
"""Before the next watch after one that failed."""
_pause = asyncio.sleep


@dataclass(slots=True)
class _Watched:
    """The object as it was created and as it was last seen; `begun` is set once it is no longer New."""

    resource: APIResource
    created: JSONObject
    done_field: str
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    current: JSONObject = field(default_factory=dict)


async def _end(client: KubeClient, watched: _Watched, view: ProgressView) -> JSONObject | None:
    """The object in its final phase; None when it is deleted. A broken watch starts again from a read."""
    resource, created = watched.resource, watched.created
    name, namespace = created["metadata"]["name"], created["metadata"]["namespace"]
    current = created
    while True:
        try:
            async with aclosing(_states(client, resource, current)) as states:
                async for state in states:
                    if state is None or _seen(state, watched, view) not in phases.RUNNING:
                        return state
                    current = state
        except (Gone, ConnectionFailed) as error:
            if isinstance(error, ConnectionFailed):
                # Reads may succeed where no watch does, behind a proxy for one.
                await _pause(PAUSE_SECONDS)
            try:
                current = await client.get(resource, name, namespace)
            except NotFound:
                return None
            if current["metadata"]["uid"] != created["metadata"]["uid"]:
                return None


async def _states(
    client: KubeClient, resource: APIResource, current: JSONObject
) -> AsyncGenerator[JSONObject | None, None]:
    """The object now, and at each change until the server ends the watch; None once it is deleted."""
    metadata = current["metadata"]
    yield current
    events = client.watch(
        resource,
        metadata["namespace"],
        resource_version=metadata["resourceVersion"],
        field_selector=f"metadata.name={metadata['name']}",
    )
    async with aclosing(events):
        async for event in events:
            if event.type == "DELETED":
                yield None
            elif event.type != "BOOKMARK":
                yield event.object


def _seen(obj: JSONObject, watched: _Watched, view: ProgressView) -> str:
    progress = _progress(obj)
    watched.current = obj
    view.update(progress.get(watched.done_field) or 0, progress.get("totalItems") or 0)
    phase = phase_of(obj)
    if phase != "New":
        watched.begun.set()
    return phase


def _progress(obj: JSONObject) -> JSONObject:
    return (obj.get("status") or {}).get("progress") or {}
