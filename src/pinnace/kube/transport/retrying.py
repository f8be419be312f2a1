"""When to send a request again, and the sender that does so within a limit of requests in flight.

1. 429: the server did not act; any request is sent again after the time it asks for.
2. Never connected: likewise, after a back-off.
3. Anything else that may pass (cut, late, 500, 502, 503, 504, an answer that is not the API server's):
   requests that may be repeated only, since a write may have been done although we never heard of it.
4. A few attempts are enough while the server is well: then the request is at fault, or what stands behind
   it. While the server itself is away - it is asked whether it is ready - they do not count: an outage is
   waited out until `patience_seconds` have gone by since the request was first sent.
5. A server that never answered may not be one at all (a wrong address): it gets the few attempts only.
6. 401 and 403 right after an outage: a server that just came up may not know yet whom it may trust and what
   they may do, so that it is asked the same way.

(docs/adr/010)
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pinnace.kube.answers import Reading
from pinnace.kube.errors import (
    SUSPECTS,
    APIStatusError,
    ConnectionFailed,
    Forbidden,
    InvalidResponse,
    KubeError,
    NotSent,
    NotTrusted,
    ServerFault,
    TooManyRequests,
    Unauthorized,
)
from pinnace.kube.transport.connection import Transport
from pinnace.kube.transport.limiting import InFlightLimit, RateCap
from pinnace.kube.transport.requests import DEFAULT_PATIENCE_SECONDS, Request

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

T = TypeVar("T")

OUTAGE_PAUSE_SECONDS = 2.0
"""The longest pause between two attempts while the server is away: back, it shall not be idle for long."""
PROBE_SECONDS = 5.0
"""How long a server may take to say that it is ready."""
RECOVERY_SECONDS = 15.0
"""For how long after a failure a refusal may come from a server that does not know everything yet."""

_PASSING_FAULTS = frozenset({500, 502, 503, 504})
_READY = Request(method="GET", path="/readyz", accept="*/*", timeout_seconds=PROBE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and after how long.

    Attributes:
        attempts: how often a request is sent at most when it fails while the server is well.
        throttled_attempts: the same when the server is merely busy (429).
        base_seconds: the first back-off; each next one is twice as long.
        cap_seconds: the longest back-off.
        retry_after_cap_seconds: the longest Retry-After that is obeyed rather than given up on.
        patience_seconds: after so long, a failing request is not sent again, whatever the reason.
    """

    attempts: int = 5
    throttled_attempts: int = 10
    base_seconds: float = 0.2
    cap_seconds: float = 10.0
    retry_after_cap_seconds: float = 60.0
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS

    def throttled_seconds(
        self, error: TooManyRequests, attempt: int, *, jitter: Callable[[], float]
    ) -> float | None:
        """How long to wait after the `attempt`-th 429 (from 1), or None to give up.

        Args:
            jitter: a random number from [0, 1).
        """
        if attempt >= self.throttled_attempts:
            return None
        return self._asked_for(error, self.backoff_seconds(attempt, jitter=jitter), jitter)

    def failed_seconds(self, error: KubeError, attempt: int, *, jitter: Callable[[], float]) -> float | None:
        """How long to wait after the `attempt`-th failure (from 1), or None if the server forbids it."""
        return self._asked_for(error, self.backoff_seconds(attempt, jitter=jitter), jitter)

    def backoff_seconds(self, attempt: int, *, jitter: Callable[[], float]) -> float:
        """The back-off after so many attempts."""
        doublings = min(attempt - 1, 30)
        return min(self.cap_seconds, self.base_seconds * 2.0**doublings) * (0.5 + 0.5 * jitter())

    def _asked_for(self, error: KubeError, delay: float, jitter: Callable[[], float]) -> float | None:
        wanted = error.retry_after_seconds if isinstance(error, APIStatusError) else None
        if wanted is None:
            return delay
        if wanted > self.retry_after_cap_seconds:
            return None
        # Jitter on top: those who were turned away together must not come back together.
        return wanted + self.base_seconds * jitter()


def may_repeat(error: KubeError, request: Request) -> bool:
    """Whether a request that failed like this may be sent again and may succeed then."""
    if isinstance(error, TooManyRequests | NotSent):
        return True
    if not request.may_repeat or isinstance(error, NotTrusted):
        return False
    return is_open(error)


def is_open(error: KubeError) -> bool:
    """Whether a request that failed like this may have been carried out, and may succeed when sent again.

    What never reached the server is not among it.
    """
    if isinstance(error, ServerFault):
        return error.code in _PASSING_FAULTS
    return isinstance(error, ConnectionFailed) and not isinstance(error, NotSent | NotTrusted)


@dataclass(slots=True)
class _Course:
    """What became of one request so far."""

    began: float
    throttled: int = 0
    failed: int = 0
    is_open: bool = False
    was_ready: bool = False


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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._limit = limit
        self._policy = policy
        self._rate = rate
        self._sleep = sleep
        self._jitter = jitter
        self._monotonic = monotonic
        self._is_known = False
        self._failed_at = float("-inf")

    async def fetch(self, request: Request, read: Reading[T]) -> T:
        """What `read` makes of the body of a successful answer.

        Raises:
            APIStatusError, ConnectionFailed: the last failure, when no further try is worth it.
        """
        return await self._repeated(request, partial(self._attempt, request, read))

    async def upgrade(self, request: Request, protocols: Sequence[str]) -> "ClientWebSocketResponse":
        """A websocket, for the caller to close. Like a watch, it takes no slot among the requests in flight.

        Raises:
            APIStatusError, ConnectionFailed: the last failure, when no further try is worth it.
        """
        return await self._repeated(request, partial(self._transport.upgrade, request, protocols))

    async def _repeated(self, request: Request, send: Callable[[], Awaitable[T]]) -> T:
        course = _Course(self._monotonic())
        while True:
            try:
                answer = await send()
            except (APIStatusError, ConnectionFailed) as error:
                if isinstance(error, APIStatusError):
                    error.after_open_attempt = course.is_open
                    self._is_known = self._is_known or bool(error.status)
                delay = await self._delay_seconds(error, request, course)
                if delay is None:
                    raise
                course.is_open = course.is_open or is_open(error)
            else:
                self._is_known = True
                return answer
            # The slot is free while we wait.
            await self._sleep(delay)

    async def _delay_seconds(self, error: KubeError, request: Request, course: _Course) -> float | None:
        """How long to wait before the next attempt, or None to give up."""
        policy = self._policy
        if self._monotonic() - course.began >= policy.patience_seconds:
            return None
        if isinstance(error, TooManyRequests):
            course.throttled += 1
            return policy.throttled_seconds(error, course.throttled, jitter=self._jitter)
        if not may_repeat(error, request):
            return await self._after_recovery(error, course)
        self._failed_at = self._monotonic()
        course.failed += 1
        delay = policy.failed_seconds(error, course.failed, jitter=self._jitter)
        if delay is None or course.failed < policy.attempts:
            return delay
        return await self._if_away(course, min(delay, OUTAGE_PAUSE_SECONDS))

    async def _if_away(self, course: _Course, delay: float) -> float | None:
        """The delay while the server is away, and once more when it is back; None when it is well."""
        if not self._is_known:
            return None
        if not await self._is_ready():
            course.was_ready = False
            return delay
        if course.was_ready:
            return None
        course.was_ready = True
        return min(delay, self._policy.base_seconds)

    async def _after_recovery(self, error: KubeError, course: _Course) -> float | None:
        is_refusal = isinstance(error, Unauthorized | Forbidden)
        if not is_refusal or self._monotonic() - self._failed_at > RECOVERY_SECONDS:
            return None
        return await self._if_away(course, OUTAGE_PAUSE_SECONDS)

    async def _is_ready(self) -> bool:
        """Whether the API server says that it is ready, or refuses to say, which only a living one does."""
        try:
            return (await self._transport.fetch(_READY)).strip() == b"ok"
        except APIStatusError as error:
            return error.code < 500 and bool(error.status)
        except ConnectionFailed:
            return False

    async def _attempt(self, request: Request, read: Reading[T]) -> T:
        if self._rate is not None:
            await self._rate.wait()
        async with self._limit.slot() as started:
            try:
                body = await self._transport.fetch(request)
            except TooManyRequests:
                self._limit.throttled(started)
                raise
            self._limit.answered(started, comparable=request.comparable)
        try:
            return read(body)
        except InvalidResponse as error:
            raise InvalidResponse(
                f"the answer to {request.shown} cannot be believed: {error}. {SUSPECTS}"
            ) from error
