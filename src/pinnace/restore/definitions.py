"""Waits until restored CustomResourceDefinitions are ready. (docs/spec: RST 18)

An API server establishes definitions one after the other. A definition may have to wait for many others, so
its timeout starts at the last progress of any of them, and not at its own creation.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Final

import msgspec

from pinnace.aio.clock import Clock
from pinnace.aio.timing import wait_for
from pinnace.api.objects import JSONObject, text
from pinnace.api.values.counts import counted
from pinnace.kube.errors import APIStatusError, KubeError, ServerFault, TooManyRequests
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from pinnace.kube.watching import WatchEvent
from pinnace.restore.cluster import ClusterClient
from pinnace.runs.activity import Activity

DEFAULT_RESOURCE_TIMEOUT_SECONDS: Final = 600.0
"""How long all definitions together are waited for; the default of `--resource-timeout`, as in Velero."""

PATIENCE_SECONDS: Final = 60.0
"""After this time without progress of any definition, the restore continues with other kinds."""

_LONGEST_PAUSE_SECONDS: Final = 1.0
"""How long to wait for the news of a watch at a time, and before a failed one is begun again."""
_PAUSE_BETWEEN_WATCHES_SECONDS: Final = 0.05
"""A proxy may end each watch at once."""
_LOOKS_AT_A_TIME: Final = 8
"""More requests at once would slow down a server that is busy with a hundred definitions."""

_NEEDED_CONDITIONS: Final = ("Established", "NamesAccepted")


def is_ready(definition: JSONObject) -> bool:
    """Whether the server has accepted the names and serves the kind.

    Raises:
        ValueError: the conditions are malformed.
    """
    holding = {one.get("type") for one in _conditions(definition) if one.get("status") == "True"}
    return holding.issuperset(_NEEDED_CONDITIONS)


def is_established(definition: JSONObject) -> bool:
    """Whether the kind is served; False for a definition with unexpected conditions."""
    try:
        return is_ready(definition)
    except ValueError:
        return False


def _conditions(definition: JSONObject) -> list[JSONObject]:
    status = definition.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if conditions is None:
        return []
    if not isinstance(conditions, list) or not all(isinstance(one, dict) for one in conditions):
        raise ValueError(".status.conditions is not a list of conditions")
    return conditions


def _obstacle(definition: JSONObject) -> str:
    """The server's reason why it does not serve the kind; empty if it names none."""
    return "; ".join(
        f"{one.get('type')} is {one.get('status')}: {one.get('message') or one.get('reason')}"
        for one in _conditions(definition)
        if one.get("type") in _NEEDED_CONDITIONS and one.get("status") == "False"
    )


class _Awaited(msgspec.Struct):
    """A definition that is not ready yet."""

    resource: APIResource
    state: str = ""
    problem: str = ""
    is_hopeless: bool = False


class Definitions:
    """The definitions of one restore that are not ready yet.

    Args:
        resource_timeout_seconds: how long to wait for all of them, counted from the last creation.
        activity: told how many are waited for.
    """

    def __init__(
        self,
        client: ClusterClient,
        clock: Clock,
        resource_timeout_seconds: float = DEFAULT_RESOURCE_TIMEOUT_SECONDS,
        activity: Activity | None = None,
    ) -> None:
        self._activity = activity or Activity()
        self._created: set[str] = set()
        self._shown = ""
        self._changed = asyncio.Event()
        self._client = client
        self._clock = clock
        self._timeout_seconds = resource_timeout_seconds
        self._new: dict[str, _Awaited] = {}
        self._late: dict[str, _Awaited] = {}
        self._last_created = self._last_progress = 0.0
        self._settling = asyncio.Lock()
        self.usable: list[str] = []
        """Names of the ready definitions; a definition's name is its kind's group-resource."""

    def created(self, name: str, resource: APIResource) -> None:
        """Add a definition to wait for: it was just created, or exists and is not ready."""
        self._created.add(name)
        self._new[name] = _Awaited(resource)
        self._last_created = self._last_progress = self._clock.monotonic()

    @property
    def _end(self) -> float:
        return self._last_created + self._timeout_seconds

    async def settled(self) -> list[str]:
        """Wait until the new definitions are ready; return those that became late, with the reasons.

        A definition is late when none made progress for a minute, or the time for all is up.
        """
        async with self._settling:
            await self._wait(self._new, lambda: min(self._last_progress + PATIENCE_SECONDS, self._end))
            late, self._new = self._new, {}
        self._late |= late
        return [f"{name}: {awaited.problem}" for name, awaited in late.items()]

    async def last_look(self, needed: Iterable[str]) -> list[str]:
        """Look at each late definition once more, then wait for those that items need.

        Names that another definition held may be free by now, so hopeless ones are read too.

        Args:
            needed: group-resources with items to restore; these have the rest of their time.

        Returns:
            The errors for the definitions that are still not ready.
        """
        await self._look(self._late)
        wanted = {name: self._late.pop(name) for name in needed if name in self._late}
        await self._wait(wanted, lambda: self._end)
        failed, self._late = {**self._late, **wanted}, {}
        waited = self._clock.monotonic() - self._last_created
        return [
            f"error verifying custom resource definition {name} is ready to use:"
            f" {awaited.problem or f'it was not established within {waited:.0f} s'}"
            for name, awaited in sorted(failed.items())
        ]

    async def _wait(self, awaited: dict[str, _Awaited], deadline: Callable[[], float]) -> None:
        """Wait for definitions until all are ready or the deadline has come; remove ready ones."""
        if not _any_left(awaited):
            return
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._follow(awaited))
            try:
                while _any_left(awaited):
                    left_seconds = deadline() - self._clock.monotonic()
                    if left_seconds <= 0:
                        break
                    self._show(len(awaited))
                    self._changed.clear()
                    pause_seconds = min(left_seconds, _LONGEST_PAUSE_SECONDS)
                    await wait_for(self._changed, clock=self._clock, timeout_seconds=pause_seconds)
            finally:
                following.cancel()
                self._show(0)
        if _any_left(awaited):
            await self._look(awaited)

    def _show(self, number: int) -> None:
        """Say in the activity how many definitions are waited for; 0 for none."""
        if self._shown:
            self._activity.waiting.remove(self._shown)
        total = len(self._created)
        self._shown = f"{number} of {counted(total, 'definition')} to be established" if number else ""
        if self._shown:
            self._activity.waiting.append(self._shown)

    async def _follow(self, awaited: dict[str, _Awaited]) -> None:
        """Note the changes of definitions, until it is cancelled.

        Each is read once, and one watch has all later changes: definitions may be a megabyte long, and the
        server is busy with them. If there is no watch, they are read again and again.
        """
        while True:
            try:
                version = await self._client.list_version(CUSTOM_RESOURCE_DEFINITIONS)
            except KubeError:
                version = ""
            await self._look(awaited)
            if version:
                await self._watch(awaited, version)
            await self._clock.sleep(_LONGEST_PAUSE_SECONDS)

    async def _watch(self, awaited: dict[str, _Awaited], version: str) -> None:
        """Note the changes after a resourceVersion. Returns when a watch has failed."""
        try:
            while True:
                events = self._client.watch(CUSTOM_RESOURCE_DEFINITIONS, resource_version=version)
                async with aclosing(events):
                    async for event in events:
                        version = event.object["metadata"]["resourceVersion"]
                        name = text(event.object, "metadata", "name")
                        if event.type != "BOOKMARK" and name in awaited:
                            self._note(awaited, name, event)
                await self._clock.sleep(_PAUSE_BETWEEN_WATCHES_SECONDS)
        except KubeError:
            return

    def _note(self, awaited: dict[str, _Awaited], name: str, event: WatchEvent) -> None:
        if event.type == "DELETED":
            awaited[name].is_hopeless, awaited[name].problem = True, "it was deleted"
        elif self._judge(awaited[name], event.object):
            self._ready(awaited, name)
        self._changed.set()

    def _ready(self, awaited: dict[str, _Awaited], name: str) -> None:
        del awaited[name]
        self.usable.append(name)
        self._last_progress = self._clock.monotonic()

    async def _look(self, awaited: dict[str, _Awaited]) -> None:
        """Read each one once, a few at a time, and remove those that are ready."""
        names = iter(list(awaited))

        async def work() -> None:
            for name in names:
                if await self._is_ready(awaited[name], name):
                    self._ready(awaited, name)
                self._changed.set()

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(_LOOKS_AT_A_TIME, len(awaited))):
                workers.create_task(work())

    async def _is_ready(self, awaited: _Awaited, name: str) -> bool:
        try:
            found = await self._client.get(awaited.resource, name)
        except KubeError as error:
            passing = not isinstance(error, APIStatusError) or isinstance(
                error, ServerFault | TooManyRequests
            )
            awaited.is_hopeless, awaited.problem = not passing, str(error)
            return False
        return self._judge(awaited, found)

    def _judge(self, awaited: _Awaited, found: JSONObject) -> bool:
        """Whether a definition is ready; otherwise its problem is noted."""
        try:
            if is_ready(found):
                return True
            state, awaited.problem = repr(_conditions(found)), _obstacle(found)
        except ValueError as error:
            awaited.is_hopeless, awaited.problem = True, str(error)
            return False
        awaited.is_hopeless = _are_names_taken(found)
        if state != awaited.state:
            awaited.state, self._last_progress = state, self._clock.monotonic()
        return False


def _any_left(awaited: Mapping[str, _Awaited]) -> bool:
    """Whether any of these can still become ready."""
    return any(not one.is_hopeless for one in awaited.values())


def _are_names_taken(definition: JSONObject) -> bool:
    """Whether another definition has the names, so that waiting is useless."""
    return any(
        one.get("type") == "NamesAccepted" and one.get("status") == "False" for one in _conditions(definition)
    )
