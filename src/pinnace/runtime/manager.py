"""Starts and stops everything a server runs, in order.

    services ─> leadership ─> informers ─> caches synced ─> preparations ─> controllers      start
    services <─ leadership <─ informers <─────────────────────────────────< controllers      stop

At a stop controllers take no new keys and finish what is in flight within the grace period; then they are
cancelled. The caches live until the last controller has ended, and the lease until no work of the leader
runs. Any failure of a part ends the whole process at once: it starts again from what is in the cluster.
(docs/spec: SRV 4, SRV 13, CTL 15)
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from pinnace.kube.errors import KubeError
from pinnace.runtime.controller import SYNC_TIMEOUT_SECONDS, Controller
from pinnace.runtime.errors import GracePeriodExceeded, LeadershipLost, RuntimeFailure
from pinnace.runtime.informer import Informer, wait_for_caches
from pinnace.runtime.leader import LeaderElector, LeaderState
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

GRACE_PERIOD_SECONDS = 30.0
"""How long work in flight may continue after a stop. (docs/spec: SRV 13)"""

_EXPECTED = (RuntimeFailure, KubeError, OSError)
"""How a part may fail; anything else is a defect."""

Preparation = Callable[[], Awaitable[None]]


class Service(Protocol):
    """Something that runs until cancelled, as leader and as standby; for example the health page."""

    async def run(self) -> None: ...


class ManagerPhase(enum.StrEnum):
    """The phase of a manager."""

    STOPPED = "Stopped"
    STANDBY = "Standby"
    SYNCING = "Syncing"
    PREPARING = "Preparing"
    RUNNING = "Running"
    STOPPING = "Stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The answers for probes. A standby counts as ready."""

    live: bool
    ready: bool
    detail: str


@dataclass(slots=True, kw_only=True)
class _Parts:
    """The parts that a manager runs, in the order of adding."""

    elector: LeaderElector | None
    grace_period_seconds: float
    sync_timeout_seconds: float
    services: dict[str, Service] = field(default_factory=dict)
    informers: list[Informer] = field(default_factory=list)
    preparations: dict[str, Preparation] = field(default_factory=dict)
    controllers: list[Controller] = field(default_factory=list)


class Manager:
    """Holds the parts of a server and runs them.

    Args:
        elector: None: no election, we always lead.
        grace_period_seconds: for work in flight at a stop.
        sync_timeout_seconds: for the caches at start.
    """

    def __init__(
        self,
        *,
        elector: LeaderElector | None = None,
        grace_period_seconds: float = GRACE_PERIOD_SECONDS,
        sync_timeout_seconds: float = SYNC_TIMEOUT_SECONDS,
    ) -> None:
        self.phase = ManagerPhase.STOPPED
        self._parts = _Parts(
            elector=elector,
            grace_period_seconds=grace_period_seconds,
            sync_timeout_seconds=sync_timeout_seconds,
        )

    def add_service(self, name: str, service: Service) -> None:
        """Run a service from start to stop, as leader and as standby."""
        self._parts.services[name] = service

    def add_informer(self, informer: Informer) -> Informer:
        """Run a cache while we lead; returns it."""
        self._parts.informers.append(informer)
        return informer

    def add_preparation(self, name: str, preparation: Preparation) -> None:
        """Do something once as leader, after the caches are synced and before any controller starts.

        The place to fail what a dead server left InProgress, for no other server can be working on it. In the
        order of adding; an exception ends the start. (docs/spec: CTL 15)
        """
        self._parts.preparations[name] = preparation

    def add_controller(self, controller: Controller) -> None:
        """Run a controller while we lead."""
        self._parts.controllers.append(controller)

    @property
    def health(self) -> Health:
        """The health of the process, for its probes."""
        elector = self._parts.elector
        if self.phase is ManagerPhase.RUNNING and elector is not None and not elector.is_leading:
            return Health(live=False, ready=False, detail="the lease ran out")
        ready = self.phase in (ManagerPhase.STANDBY, ManagerPhase.RUNNING)
        return Health(live=True, ready=ready, detail=str(self.phase))

    @property
    def leads(self) -> bool:
        """Whether the controllers run: with leader election, on one server only."""
        return self.phase is ManagerPhase.RUNNING and self.health.live

    async def run(self, stop: asyncio.Event, *, on_ending: Callable[[], None] = lambda: None) -> None:
        """Start everything, wait for `stop`, stop everything. Runs once.

        Args:
            on_ending: called when everything begins to end, in order or after a failure.

        Raises:
            GracePeriodExceeded: work in flight had to be cancelled; everything is stopped.
            LeadershipLost: another server may be leading; everything was cancelled at once.
            CacheSyncTimeout: the caches did not fill.
            BaseExceptionGroup: several parts failed at once, not all of them as a part may. Otherwise one
                failure is raised as it is, that of the lease if there is one; the others are logged.
        """
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                run = _Run(self._parts, group, stop, self._enter)
                await run.through(on_ending)
        except BaseExceptionGroup as failures:
            failure = _one_or_all(failures)
            await run.release_unused_lease()
        finally:
            self._enter(ManagerPhase.STOPPED)
        if failure is not None:
            raise failure

    def _enter(self, phase: ManagerPhase) -> None:
        self.phase = phase
        log.info("Manager phase", phase=phase)


class _Run:
    """One run of a manager: the tasks that it has started so far."""

    def __init__(
        self,
        parts: _Parts,
        group: asyncio.TaskGroup,
        stop: asyncio.Event,
        enter: Callable[[ManagerPhase], None],
    ) -> None:
        self._parts = parts
        self._group = group
        self._stop = stop
        self._enter = enter
        self._services: list[asyncio.Task[None]] = []
        self._informers: list[asyncio.Task[None]] = []
        self._controllers: dict[asyncio.Task[None], Controller] = {}
        self._election: asyncio.Task[None] | None = None

    async def through(self, on_ending: Callable[[], None]) -> None:
        """Start, wait, stop. When a part fails, the group cancels this and all parts."""
        try:
            for name, service in self._parts.services.items():
                self._services.append(self._group.create_task(service.run(), name=name))
            if await self._started_before_stop():
                await self._stop.wait()
        finally:
            on_ending()
        await self._stop_all()

    async def _start(self) -> None:
        parts = self._parts
        if parts.elector is not None:
            self._enter(ManagerPhase.STANDBY)
            self._election = self._group.create_task(parts.elector.run(), name="leader-election")
            await parts.elector.wait_until_leading()
        self._enter(ManagerPhase.SYNCING)
        for informer in parts.informers:
            task = self._group.create_task(informer.run(), name=f"informer-{informer.name}")
            self._informers.append(task)
        await wait_for_caches(parts.informers, parts.sync_timeout_seconds)
        self._enter(ManagerPhase.PREPARING)
        for name, preparation in parts.preparations.items():
            log.info("Preparing", preparation=name)
            await preparation()
        for controller in parts.controllers:
            task = self._group.create_task(controller.run(), name=f"controller-{controller.name}")
            self._controllers[task] = controller
        self._enter(ManagerPhase.RUNNING)

    async def _started_before_stop(self) -> bool:
        """Start; a stop before the end of that cancels it and gives False."""
        start = asyncio.ensure_future(self._start())
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((start, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(start, stopped)
        if start.cancelled():
            return False
        if (error := start.exception()) is not None:
            # No controller was started, so the next server need not wait until the lease expires.
            await self._give_up_lease()
            raise error
        return True

    async def _stop_all(self) -> None:
        self._enter(ManagerPhase.STOPPING)
        late = await self._stop_controllers()
        await _cancel(*self._informers)
        await self._give_up_lease()
        await _cancel(*self._services)
        if late:
            raise GracePeriodExceeded(late, self._parts.grace_period_seconds)

    async def _give_up_lease(self) -> None:
        if self._election is not None and self._parts.elector is not None:
            self._parts.elector.stop()
            await asyncio.wait((self._election,))

    async def release_unused_lease(self) -> None:
        """Release the lease if a failure ended everything before any controller was started.

        A server that fails at each start, as its port is taken, would keep others from leading. Also a
        standby may hold the lease, if the failure cancelled it while it took that.
        """
        elector, began = self._parts.elector, bool(self._controllers)
        if elector is not None and elector.state in (LeaderState.STANDBY, LeaderState.LEADING) and not began:
            await elector.release()

    async def _stop_controllers(self) -> list[str]:
        """Stop them all, wait, cancel those that are late and return their names."""
        for controller in self._controllers.values():
            controller.stop()
        if not self._controllers:
            return []
        _, pending = await asyncio.wait(self._controllers, timeout=self._parts.grace_period_seconds)
        late = [self._controllers[task].name for task in pending]
        if late:
            log.error("Work in flight did not end within the grace period and is cancelled", controllers=late)
        await _cancel(*pending)
        return late


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they have cleaned up. Their task group handles their failures."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _one_or_all(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure in a group, however deep, that says why everything ended; the group if none does."""
    single = list(_leaves(failures))
    told = next((each for each in single if isinstance(each, LeadershipLost)), single[0])
    others = [each for each in single if each is not told]
    # After a loss, the others only follow from it.
    if isinstance(told, LeadershipLost) or all(isinstance(each, _EXPECTED) for each in (told, *others)):
        for other in others:
            log.warning("Another part of the server failed as well", error=other)
        return told
    return failures if others else told


def _leaves(failures: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in failures.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
