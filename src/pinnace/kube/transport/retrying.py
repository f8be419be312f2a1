"""When to send a request again, and the sender that does so within a limit of requests in flight.

1. 429: the server did not act; any request is sent again after the time it asks for.
2. Never connected: likewise, after a back-off.
3. Anything else that may pass (cut, late, 500, 502, 503, 504): reads only, since a write may have
   been done although we never heard of it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pinnace.kube.errors import (
    APIStatusError,
    ConnectionFailed,
    KubeError,
    NotSent,
    NotTrusted,
    ServerFault,
    TooManyRequests,
)
from pinnace.kube.transport.connection import Transport
from pinnace.kube.transport.limiting import InFlightLimit, RateCap
from pinnace.kube.transport.requests import Request

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

T = TypeVar("T")

_PASSING_FAULTS = frozenset({500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and after how long.

    Attributes:
        attempts: how often a request is sent at most when it fails.
        throttled_attempts: the same when the server is merely busy (429).
        base_seconds: the first back-off; each next one is twice as long.
        cap_seconds: the longest back-off.
        retry_after_cap_seconds: the longest Retry-After that is obeyed rather than given up on.
    """

    attempts: int = 5
    throttled_attempts: int = 10
    base_seconds: float = 0.2
    cap_seconds: float = 10.0
    retry_after_cap_seconds: float = 60.0

    def delay_seconds(
        self, error: KubeError, request: Request, attempt: int, *, jitter: Callable[[], float]
    ) -> float | None:
        """How long to wait before sending again, or None to give up.

        Args:
            error: why attempt number `attempt` (from 1) failed.
            request: what was sent.
            jitter: a random number from [0, 1).
        """
        attempts = self.throttled_attempts if isinstance(error, TooManyRequests) else self.attempts
        if attempt >= attempts or not _may_repeat(error, request):
            return None
        backoff = min(self.cap_seconds, self.base_seconds * 2.0 ** (attempt - 1))
        delay = backoff * (0.5 + 0.5 * jitter())
        wanted = error.retry_after_seconds if isinstance(error, APIStatusError) else None
        if wanted is None:
            return delay
        if wanted > self.retry_after_cap_seconds:
            return None
        # Jitter on top: those who were turned away together must not come back together.
        return wanted + self.base_seconds * jitter()


def _may_repeat(error: KubeError, request: Request) -> bool:
    if isinstance(error, TooManyRequests | NotSent):
        return True
    if not request.is_read or isinstance(error, NotTrusted):
        return False
    if isinstance(error, ServerFault):
        return error.code in _PASSING_FAULTS
    return isinstance(error, ConnectionFailed)


class Sender:
    """Sends requests through a transport, again where that helps, and never too many at once."""

    def __init__(
        self,
        transport: Transport,
        limit: InFlightLimit,
        policy: RetryPolicy,
        *,
        rate: RateCap | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._transport = transport
        self._limit = limit
        self._policy = policy
        self._rate = rate
        self._sleep = sleep
        self._jitter = jitter

    async def fetch(self, request: Request) -> bytes:
        """The body of a successful answer.

        Raises:
            APIStatusError, ConnectionFailed: the last failure, when no further try is worth it.
        """
        return await self._repeated(request, partial(self._attempt, request))

    async def upgrade(self, request: Request, protocols: Sequence[str]) -> "ClientWebSocketResponse":
        """A websocket, for the caller to close. Like a watch, it takes no slot among the requests in flight.

        Raises:
            APIStatusError, ConnectionFailed: the last failure, when no further try is worth it.
        """
        return await self._repeated(request, partial(self._transport.upgrade, request, protocols))

    async def _repeated(self, request: Request, send: Callable[[], Awaitable[T]]) -> T:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await send()
            except (APIStatusError, ConnectionFailed) as error:
                delay = self._policy.delay_seconds(error, request, attempt, jitter=self._jitter)
                if delay is None:
                    raise
            # The slot is free while we wait.
            await self._sleep(delay)

    async def _attempt(self, request: Request) -> bytes:
        if self._rate is not None:
            await self._rate.wait()
        async with self._limit.slot() as started:
            try:
                body = await self._transport.fetch(request)
            except TooManyRequests:
                self._limit.throttled(started)
                raise
            self._limit.answered(started, comparable=request.comparable)
            return body
