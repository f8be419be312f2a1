"""Leader election by a Lease, so that two servers of one namespace never work on the same objects.

    STANDBY ──lease free, run out or given back──> LEADING ──stop──> RELEASED
                                                      └ not renewed in time, or taken ──> LeadershipLost

A lease lasts 60 s, the leader gives up after 50 s without renewing, tries are 2 s apart: an outage of the API
server that a run waits out must not end the server. The 10 s between are for the leader to notice before
another server may begin. (docs/adr/011)
(docs/spec: SRV 14, CTL 15)
"""

import asyncio
import enum
import random
from collections.abc import Callable
from datetime import datetime

from pinnace.aio.clock import Clock, LoopClock, Sleeper
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import utcnow
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, Conflict, InvalidResponse, KubeError, NotFound
from pinnace.kube.resources import LEASES
from pinnace.runtime.errors import LeadershipLost
from pinnace.runtime.lease import LeaseRecord, Observation, held_spec, released_spec
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

_STANDBY_JITTER = 1.2
"""Those who wait try up to this much later than the leader renews, so that they do not try together."""


LEASE_SECONDS = 60.0
RENEWED_PART = 5 / 6
"""After this part of a lease's duration without renewing it, the leader gives up."""


class LeaderState(enum.StrEnum):
    """Where an elector is."""

    STANDBY = "Standby"
    LEADING = "Leading"
    LOST = "Lost"
    RELEASED = "Released"


class LeaderElector:
    """One candidate for one Lease.

    Args:
        client: the cluster.
        namespace, name: of the Lease; it is created when missing.
        identity: unique among all candidates, a restarted process included.
        lease_duration_seconds: how long others leave a lease alone that they do not see renewed.
        renew_deadline_seconds: how long the leader may go without renewing; shorter than the former.
        retry_period_seconds: between two tries.
        clock: monotonic time and timers; decides.
        now: wall time; written for people only.
        jitter: a number in [0, 1), spreads the tries of those who wait.

    Raises:
        ValueError: durations that would let two lead at once, or no identity.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_duration_seconds: float = LEASE_SECONDS,
        renew_deadline_seconds: float = LEASE_SECONDS * RENEWED_PART,
        retry_period_seconds: float = 2.0,
        clock: Clock | None = None,
        now: Callable[[], datetime] = utcnow,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not identity:
            raise ValueError("a leader elector needs an identity")
        if not lease_duration_seconds > renew_deadline_seconds > retry_period_seconds * _STANDBY_JITTER:
            raise ValueError("leader election needs lease duration > renew deadline > retry period * 1.2")
        self.identity = identity
        self.name = f"{namespace}/{name}"
        self.state = LeaderState.STANDBY
        self._client = client
        self._namespace = namespace
        self._lease_name = name
        self._lease_duration_seconds = lease_duration_seconds
        self._renew_deadline_seconds = renew_deadline_seconds
        self._retry_period_seconds = retry_period_seconds
        self._clock = clock or LoopClock()
        self._now = now
        self._jitter = jitter
        self._sleeper = Sleeper(self._clock)
        self._leading = asyncio.Event()
        self._observed: Observation | None = None
        self._written: JSONObject | None = None
        self._renewed_at = 0.0

    @property
    def is_leading(self) -> bool:
        """Whether nobody else can be leading at this moment."""
        expiry = self._renewed_at + self._lease_duration_seconds
        return self.state is LeaderState.LEADING and self._clock.monotonic() < expiry

    @property
    def leader(self) -> str:
        """The holder as last seen; empty when nobody holds the lease."""
        return self._observed.record.holder if self._observed is not None else ""

    async def wait_until_leading(self) -> None:
        """Wait until the lease was won once."""
        await self._leading.wait()

    def stop(self) -> None:
        """Let `run` give the lease back and return. Only when nothing acts as leader any more."""
        self._sleeper.stop()

    async def run(self) -> None:
        """Win the lease and keep it until `stop`. Cancelling leaves it to run out: work may be under way.

        Raises:
            LeadershipLost: it was not renewed in time, or another holds it now.
        """
        await self._acquire()
        if self._leading.is_set():
            await self._keep()
            await self._release()

    async def _acquire(self) -> None:
        while not self._sleeper.stopped:
            if await self._attempt(self._renew_deadline_seconds):
                self.state = LeaderState.LEADING
                self._leading.set()
                log.info("Became leader", lease=self.name, identity=self.identity)
                return
            spread = 1.0 + (_STANDBY_JITTER - 1.0) * self._jitter()
            await self._sleeper.sleep(self._retry_period_seconds * spread)

    async def _keep(self) -> None:
        while await self._sleeper.sleep(max(0.0, min(self._retry_period_seconds, self._time_left()))):
            left = self._time_left()
            if left > 0 and await self._attempt(left):
                continue
            if self.leader not in ("", self.identity):
                self._lose(f"lease {self.name} is held by {self.leader}")
            if self._time_left() <= 0:
                self._lose(f"lease {self.name} was not renewed for {self._renew_deadline_seconds:g} s")

    def _time_left(self) -> float:
        return self._renewed_at + self._renew_deadline_seconds - self._clock.monotonic()

    def _lose(self, reason: str) -> None:
        self.state = LeaderState.LOST
        raise LeadershipLost(reason)

    async def _attempt(self, timeout_seconds: float) -> bool:
        """Try once to take or renew the lease; False when it is another's, or the try failed."""
        # Others count from when they see our write, which cannot be before we begin.
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(timeout_seconds):
                won = await self._take_or_renew()
        except (Conflict, AlreadyExists) as error:  # someone wrote first: look again at the next try
            log.debug("Lease changed while it was taken", lease=self.name, error=error)
            return False
        except (KubeError, TimeoutError) as error:
            log.warning("Cannot take or renew the lease", lease=self.name, error=error)
            return False
        if won:
            self._renewed_at = began
        return won

    async def _take_or_renew(self) -> bool:
        # Nobody but the holder writes a lease that is held, so what we wrote last is mostly what is there.
        lease, self._written = self._written, None
        if lease is not None:
            try:
                await self._hold(lease)
            except (Conflict, NotFound):
                log.debug("Lease changed since it was renewed", lease=self.name)
            else:
                return True
        return await self._look_and_take()

    async def _look_and_take(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._lease_name, self._namespace)
        except NotFound:
            spec = held_spec(None, self.identity, self._lease_duration_seconds, self._now())
            metadata = {"name": self._lease_name, "namespace": self._namespace}
            self._written = await self._client.create(LEASES, self._body(metadata, spec), self._namespace)
            self._check_held(self._written)
            return True
        observed = self._observe(lease)
        if observed.record.holder != self.identity and observed.is_held(self._clock.monotonic()):
            return False
        await self._hold(lease)
        return True

    async def _hold(self, lease: JSONObject) -> None:
        """Write over a state of the lease that we hold it. Raises Conflict if it is another by now."""
        former = self._observe(lease).record
        spec = held_spec(former, self.identity, self._lease_duration_seconds, self._now())
        self._written = await self._replace(lease, spec)
        self._check_held(self._written)

    def _check_held(self, lease: JSONObject) -> None:
        """Believe a write only when the answer says that we hold the lease. Raises InvalidResponse."""
        if self._observe(lease).record.holder != self.identity:
            self._written = None
            raise InvalidResponse(f"lease {self.name} was written, and the answer names another holder")

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(self._renew_deadline_seconds):
                lease = await self._client.get(LEASES, self._lease_name, self._namespace)
                observed = self._observe(lease)
                if observed.record.holder == self.identity:
                    await self._replace(lease, released_spec(observed.record, self._now()))
        except (KubeError, TimeoutError) as error:  # it runs out by itself
            log.warning("Cannot give the lease back", lease=self.name, error=error)
        self.state = LeaderState.RELEASED

    def _observe(self, lease: JSONObject) -> Observation:
        record = LeaseRecord.of(lease, default_duration_seconds=self._lease_duration_seconds)
        now = self._clock.monotonic()
        self._observed = self._observed.after(record, now) if self._observed else Observation(record, now)
        return self._observed

    async def _replace(self, lease: JSONObject, spec: JSONObject) -> JSONObject:
        """Write a new spec over exactly the state that was read: its resourceVersion goes along."""
        body = self._body(lease["metadata"], spec)
        return await self._client.replace(LEASES, self._lease_name, body, self._namespace)

    @staticmethod
    def _body(metadata: JSONObject, spec: JSONObject) -> JSONObject:
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
