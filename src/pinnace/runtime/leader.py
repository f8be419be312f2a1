"""Leader election by a Lease, so that two servers of one namespace never work on the same objects.

    STANDBY ──lease free, expired or released──> LEADING ──stop──> RELEASED
                                                    └ not renewed in time, or taken ──> LeadershipLost

A lease lasts 60 s, the leader gives up after 50 s without renewing, tries are 2 s apart: an outage of the API
server that a run can wait out must not end the server. The 10 s between them are for the leader to notice
that it has lost the lease, before another server may begin. (docs/adr/011) (docs/spec: SRV 14, CTL 15)

`fence` is closed from shortly before another candidate may take the lease: no write of the leader begins
after that, whatever kept it from noticing. (docs/adr/078)
"""

import asyncio
import enum
import os
import random
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

from pinnace.aio.clock import BootClock, Clock
from pinnace.aio.sleeper import Sleeper
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, Conflict, InvalidResponse, KubeError, NotFound
from pinnace.kube.resources import LEASES
from pinnace.runtime.errors import LeadershipLost
from pinnace.runtime.fence import NOT_LEADING, LastDate, LeaseFence
from pinnace.runtime.keys import Key
from pinnace.runtime.lease import LeaseRecord, ObservedLease, held_spec, is_long_expired, released_spec
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

_STANDBY_JITTER = 1.2
"""Standby candidates try up to this much later than the leader renews, so that they do not try together."""

_LIFE_SIGNS = 3
"""How many periods of renewal a lease that seems to have expired long ago is watched before it is taken."""

LEASE_SECONDS = 60.0
RENEWED_PART = 5 / 6
"""After this part of a lease's duration without renewing it, the leader gives up."""
FENCED_PART = 0.95
"""After this part no write begins. In between, the leader may undo what it cannot finish; the rest is for a
write that is on its way."""


def candidate_name() -> str:
    """A name that no other candidate has, not even the process before a restart of the same container."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class LeaderState(enum.StrEnum):
    """The state of an elector."""

    STANDBY = "Standby"
    LEADING = "Leading"
    LOST = "Lost"
    RELEASED = "Released"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """The times of an election, in seconds.

    Attributes:
        duration: how long other candidates leave a lease alone that they do not see renewed.
        renew_deadline: how long the leader may go without renewing; shorter than `duration`.
        retry_period: between two tries.
        jitter: returns a number in [0, 1); spreads the tries of standby candidates.

    Raises:
        ValueError: these times would let two candidates lead at once.
    """

    duration: float = LEASE_SECONDS
    renew_deadline: float = LEASE_SECONDS * RENEWED_PART
    retry_period: float = 2.0
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period * _STANDBY_JITTER:
            raise ValueError("leader election needs lease duration > renew deadline > retry period * 1.2")

    @classmethod
    def lasting(cls, seconds: float) -> "LeaseTimes":
        """The usual times for a lease of that duration."""
        return cls(duration=seconds, renew_deadline=seconds * RENEWED_PART)


class LeaderElector:
    """One candidate for one Lease.

    Args:
        client: the cluster.
        lease: namespace and name of the Lease; it is created when missing.
        identity: unique among all candidates, a restarted process included.
        clock: its monotonic time decides, its time of day in the Lease is for people. None: one that counts
            suspensions.

    Raises:
        ValueError: no identity.
    """

    def __init__(
        self,
        client: KubeClient,
        lease: Key,
        identity: str,
        *,
        times: LeaseTimes | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not identity:
            raise ValueError("a leader elector needs an identity")
        self.identity = identity
        self.name = str(lease)
        self.state = LeaderState.STANDBY
        self._answers = LastDate()
        self._client = client.fenced(self._answers)
        self._lease = lease
        self._times = times or LeaseTimes()
        self._clock = clock or BootClock()
        self._sleeper = Sleeper(self._clock)
        self.fence = LeaseFence(self._clock, self._sleeper.wake)
        self._leading = asyncio.Event()
        self._observed: ObservedLease | None = None
        self._written: JSONObject | None = None
        self._renewed_at = 0.0

    @property
    def is_leading(self) -> bool:
        """Whether no other candidate can be leading at this moment."""
        expiry = self._renewed_at + self._times.duration
        return self.state is LeaderState.LEADING and self._clock.monotonic() < expiry

    @property
    def leader(self) -> str:
        """The lease holder as last seen; empty if there is none."""
        return self._observed.record.holder if self._observed is not None else ""

    async def wait_until_leading(self) -> None:
        """Return once the lease has been won for the first time."""
        await self._leading.wait()

    def stop(self) -> None:
        """Make `run` release the lease and return. Call it only when no work of the leader runs any more."""
        self._sleeper.stop()

    async def run(self) -> None:
        """Win the lease and keep it until `stop`. Cancelling lets it expire, as work may still be running.

        Raises:
            LeadershipLost: it was not renewed in time, or another holds it now.
        """
        await self._acquire()
        if self._leading.is_set():
            await self._keep()
            await self.release()

    async def _acquire(self) -> None:
        while not self._sleeper.stopped:
            if await self._attempt(self._times.renew_deadline):
                self.state = LeaderState.LEADING
                self._leading.set()
                log.info("Became leader", lease=self.name, identity=self.identity)
                return
            spread = 1.0 + (_STANDBY_JITTER - 1.0) * self._times.jitter()
            await self._sleeper.sleep(self._times.retry_period * spread)

    async def _keep(self) -> None:
        while await self._sleeper.sleep(max(0.0, min(self._times.retry_period, self._time_left()))):
            left = self._time_left()
            if left > 0 and await self._attempt(left):
                continue
            if self.leader not in ("", self.identity):
                self._lose(f"lease {self.name} is held by {self.leader}")
            if self._time_left() <= 0:
                self._lose(f"lease {self.name} was not renewed for {self._times.renew_deadline:g} s")

    def _time_left(self) -> float:
        return self._renewed_at + self._times.renew_deadline - self._clock.monotonic()

    def _lose(self, reason: str) -> None:
        self.state = LeaderState.LOST
        self.fence.close(f"{reason}: this server does not lead any more")
        raise LeadershipLost(reason)

    async def _attempt(self, timeout_seconds: float) -> bool:
        """Try once to take or renew the lease. False if another candidate holds it, or the try failed."""
        # Others count from when they see our write, which cannot be before we begin.
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(timeout_seconds):
                won = await self._take_or_renew()
        except (
            Conflict,
            AlreadyExists,
        ) as error:  # another candidate wrote first
            log.debug("Lease changed while it was taken", lease=self.name, error=error)
            return False
        except (KubeError, TimeoutError) as error:
            log.warning("Cannot take or renew the lease", lease=self.name, error=error)
            return False
        if won:
            self._renewed_at = began
            lasts = self._times.duration * FENCED_PART
            self.fence.renewed(began, lasts_seconds=lasts, date=self._answers.date)
        return won

    async def _take_or_renew(self) -> bool:
        # Only the holder writes a lease that is held, so our last write is usually its current state.
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
            lease = await self._client.get(LEASES, self._lease.name, self._lease.namespace)
        except NotFound:
            spec = held_spec(None, self.identity, self._times.duration, self._clock.now())
            metadata = {"name": self._lease.name, "namespace": self._lease.namespace}
            self._written = await self._client.create(
                LEASES, self._body(metadata, spec), self._lease.namespace
            )
            self._check_held(self._written)
            return True
        observed = self._observe(lease)
        if observed.record.holder != self.identity and observed.is_held(self._clock.monotonic()):
            if not self._was_left(lease, observed):
                return False
            log.info("Taking a lease that expired long ago", lease=self.name, holder=observed.record.holder)
        await self._hold(lease)
        return True

    def _was_left(self, lease: JSONObject, observed: ObservedLease) -> bool:
        """Whether the holder is long gone, so that the lease's duration need not be waited for again.

        A holder that lives is seen to renew the lease meanwhile, whatever the clocks say. (docs/adr/091)
        """
        watched_seconds = self._clock.monotonic() - observed.seen_at
        return watched_seconds >= _LIFE_SIGNS * self._times.retry_period and is_long_expired(
            lease, observed.record, self._answers.date
        )

    async def _hold(self, lease: JSONObject) -> None:
        """Replace this state of the lease by one that we hold. Raises Conflict if it has changed since."""
        former = self._observe(lease).record
        spec = held_spec(former, self.identity, self._times.duration, self._clock.now())
        self._written = await self._replace(lease, spec)
        self._check_held(self._written)

    def _check_held(self, lease: JSONObject) -> None:
        """Raise InvalidResponse unless the answer to a write names this candidate as the holder."""
        if self._observe(lease).record.holder != self.identity:
            self._written = None
            raise InvalidResponse(f"lease {self.name} was written, and the answer names another holder")

    async def release(self) -> None:
        """Let another candidate lead at once; `run` has ended. Call it only when no work of the leader runs.

        If the API server does not take it, the lease expires by itself.
        """
        self.fence.close(NOT_LEADING)
        try:
            async with asyncio.timeout(self._times.renew_deadline):
                lease = await self._client.get(LEASES, self._lease.name, self._lease.namespace)
                observed = self._observe(lease)
                if observed.record.holder == self.identity:
                    await self._replace(lease, released_spec(observed.record, self._clock.now()))
        except (KubeError, TimeoutError) as error:
            log.warning("Could not release the lease, it expires by itself", lease=self.name, error=error)
        self.state = LeaderState.RELEASED

    def _observe(self, lease: JSONObject) -> ObservedLease:
        record = LeaseRecord.of(lease, default_duration_seconds=self._times.duration)
        now = self._clock.monotonic()
        self._observed = self._observed.after(record, now) if self._observed else ObservedLease(record, now)
        return self._observed

    async def _replace(self, lease: JSONObject, spec: JSONObject) -> JSONObject:
        """Replace the spec of exactly the state that was read, by sending its resourceVersion."""
        body = self._body(lease["metadata"], spec)
        return await self._client.replace(LEASES, self._lease.name, body, self._lease.namespace)

    @staticmethod
    def _body(metadata: JSONObject, spec: JSONObject) -> JSONObject:
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
