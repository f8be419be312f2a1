"""Decides when to send a request again, and sends requests within the limit of requests in flight.

1. 429: the server did not act; any request is sent again after the time that the server names.
2. Never connected: any request is sent again, after a back-off.
3. Other temporary failures (connection lost, timeout, 500, 502, 503, 504, an answer that is not the API
   server's): only repeatable requests are sent again, as a write may have been carried out without an answer.
4. While the server is ready, only a few attempts are made: then the request is at fault, or a server behind
   the API server. While the server is not ready - its readiness is checked - attempts do not count: an outage
   is waited out until `patience_seconds` have passed since the request was first sent.
5. A server that never answered may have a wrong address: only the few attempts are made.
6. 401 and 403 right after an outage: a server that has just started may not know users and roles yet, so
   its readiness is checked in the same way.
7. 401 to a token that was accepted before, from a file that another program renews: the file is read again,
   and the request is sent again for a minute. A service account that was made again has the old token in the
   file until the kubelet has renewed it.

(docs/adr/010)
"""

import copy
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.fence import Fence, FenceClosed
from pinnace.aio.retrying import RetryPolicy, random_share
from pinnace.kube.answers import Reading
from pinnace.kube.errors import (
    SUSPECTS,
    APIStatusError,
    ClientDefect,
    ConnectionFailed,
    Forbidden,
    InvalidResponse,
    KubeError,
    NotLeading,
    NotSent,
    NotTrusted,
    ServerFault,
    TooManyRequests,
    Unauthorized,
)
from pinnace.kube.transport.connection import Transport
from pinnace.kube.transport.limiting import InFlightLimit, RateCap
from pinnace.kube.transport.requests import APIRequest
from pinnace.kube.transport.silence import Silence
from pinnace.kube.transport.timeouts import DEFAULT_PATIENCE_SECONDS

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

T = TypeVar("T")

OUTAGE_PAUSE_SECONDS = 2.0
"""The longest pause between two attempts during an outage, so that work resumes soon afterwards."""
PROBE_SECONDS = 5.0
"""The timeout of the readiness check."""
RECOVERY_SECONDS = 15.0
"""How long after a failure a refusal may be due to a server that has not finished starting."""

RENEWAL_SECONDS = 60.0
"""How long after the first 401 a new token is waited for."""
RENEWAL_PAUSE_SECONDS = 1.0

_DEFECTS = (LookupError, TypeError, ValueError, AttributeError)
"""What the code below here raises only by a defect; engines take these for content that is odd."""
_PASSING_FAULTS = frozenset({500, 502, 503, 504})
_READY = APIRequest(method="GET", path="/readyz", accept="*/*", timeout_seconds=PROBE_SECONDS)


class ThrottledRetryPolicy(RetryPolicy, frozen=True, kw_only=True):
    """The retries of a server that says when it is merely busy, and when it wants to be asked again.

    Attributes:
        throttled_attempts: how often a request is sent at most when the server is merely busy (429).
        retry_after_cap_seconds: the longest Retry-After that is obeyed; with a longer one the request fails.
    """

    throttled_attempts: int = 10
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

    def _asked_for(self, error: KubeError, delay: float, jitter: Callable[[], float]) -> float | None:
        wanted = error.retry_after_seconds if isinstance(error, APIStatusError) else None
        if wanted is None:
            return delay
        if wanted > self.retry_after_cap_seconds:
            return None
        # Plus jitter: requests that were refused together must not be repeated together.
        return wanted + self.base_seconds * jitter()


def may_repeat(error: KubeError, request: APIRequest) -> bool:
    """Whether a request that failed with this error may be sent again, and may then succeed."""
    if isinstance(error, TooManyRequests | NotSent):
        return True
    if not request.may_repeat or isinstance(error, NotTrusted):
        return False
    return is_open(error)


def is_open(error: KubeError) -> bool:
    """Whether a request with this error may have been carried out, and may succeed when repeated.

    A request that never reached the server was not carried out.
    """
    if isinstance(error, ServerFault):
        return error.code in _PASSING_FAULTS
    return isinstance(error, ConnectionFailed) and not isinstance(error, NotSent | NotTrusted)


class _Attempts(msgspec.Struct):
    """The attempts at one request so far."""

    began: float
    throttled: int = 0
    failed: int = 0
    is_open: bool = False
    was_ready: bool = False


async def _pass_fence(request: APIRequest) -> None:
    """Wait until a write may be sent. Raises NotLeading."""
    if request.fence is not None and request.writes:
        try:
            await request.fence.passed()
        except FenceClosed as closed:
            raise NotLeading(f"{request.shown} was not sent: {closed}") from closed


class Sender:
    """Sends requests through a transport, repeats them where that helps, and limits those in flight."""

    def __init__(
        self,
        transport: Transport,
        limit: InFlightLimit,
        policy: ThrottledRetryPolicy,
        *,
        rate: RateCap | None = None,
        jitter: Callable[[], float] = random_share,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._transport = transport
        self._limit = limit
        self._policy = policy
        self._rate = rate
        self._jitter = jitter
        self._clock = clock
        self.silence = Silence(policy.patience_seconds, clock)
        self._fence: Fence | None = None
        self._is_known = False
        self._failed_at = float("-inf")
        self._was_accepted = False
        self._refused_since: float | None = None

    def fenced(self, fence: Fence) -> "Sender":
        """This sender, with writes that pass the fence; it shares connections and limits."""
        other = copy.copy(self)
        other._fence = fence
        return other

    async def fetch(self, request: APIRequest, read: Reading[T]) -> T:
        """Return the result of `read` on the body of a successful answer.

        Raises:
            APIStatusError, ConnectionFailed: the failure of the last attempt.
            NotLeading: a write was not sent, or not again.
        """
        request = self._behind_fence(request)
        return await self._repeated(request, partial(self._attempt, request, read))

    async def upgrade(self, request: APIRequest, protocols: Sequence[str]) -> "ClientWebSocketResponse":
        """Return a websocket, which the caller closes. Like a watch, it takes no slot of the requests in
        flight.

        Raises:
            APIStatusError, ConnectionFailed: the failure of the last attempt.
        """
        request = self._behind_fence(request)
        return await self._repeated(request, partial(self._transport.upgrade, request, protocols))

    def _behind_fence(self, request: APIRequest) -> APIRequest:
        return request if self._fence is None else replace(request, fence=self._fence)

    async def _repeated(self, request: APIRequest, send: Callable[[], Awaitable[T]]) -> T:
        attempts = _Attempts(self._clock.monotonic())
        key = object()
        try:
            return await self._until_settled(request, send, attempts, key)
        finally:
            self.silence.ended(key)

    async def _until_settled(
        self, request: APIRequest, send: Callable[[], Awaitable[T]], attempts: _Attempts, key: object
    ) -> T:
        while True:
            # Before a slot is taken: what waits here must not hold up the renewal that it waits for.
            await _pass_fence(request)
            self.silence.sent(key)
            try:
                answer = await send()
            except FenceClosed:
                continue  # closed in the last moment: wait, or say so
            except (APIStatusError, ConnectionFailed) as error:
                self.silence.failed(key, error)
                if isinstance(error, APIStatusError):
                    error.after_open_attempt = attempts.is_open
                    self._is_known = self._is_known or bool(error.status)
                delay = await self._delay_seconds(error, request, attempts)
                if delay is None:
                    raise
                attempts.is_open = attempts.is_open or is_open(error)
            except _DEFECTS as error:
                raise ClientDefect(
                    f"{request.shown} failed by a defect of this program: {type(error).__name__}: {error}"
                ) from error
            else:
                self.silence.answered(key)
                self._is_known = self._was_accepted = True
                self._refused_since = None
                return answer
            # The slot is free while we wait.
            await self._clock.sleep(delay)

    async def _delay_seconds(
        self, error: KubeError, request: APIRequest, attempts: _Attempts
    ) -> float | None:
        """How long to wait before the next attempt, or None to give up."""
        policy = self._policy
        if self._clock.monotonic() - attempts.began >= policy.patience_seconds:
            return None
        if isinstance(error, TooManyRequests):
            attempts.throttled += 1
            return policy.throttled_seconds(error, attempts.throttled, jitter=self._jitter)
        if not may_repeat(error, request):
            return await self._after_recovery(error, attempts)
        self._failed_at = self._clock.monotonic()
        attempts.failed += 1
        delay = policy.failed_seconds(error, attempts.failed, jitter=self._jitter)
        if delay is None or attempts.failed < policy.attempts:
            return delay
        return await self._if_away(attempts, min(delay, OUTAGE_PAUSE_SECONDS))

    async def _if_away(self, attempts: _Attempts, delay: float) -> float | None:
        """The delay during an outage, and once more when the server is ready again; None otherwise."""
        if not self._is_known:
            return None
        if not await self._is_ready():
            attempts.was_ready = False
            return delay
        if attempts.was_ready:
            return None
        attempts.was_ready = True
        return min(delay, self._policy.base_seconds)

    async def _after_recovery(self, error: KubeError, attempts: _Attempts) -> float | None:
        if isinstance(error, Unauthorized) and self._may_be_renewed():
            return RENEWAL_PAUSE_SECONDS
        is_refusal = isinstance(error, Unauthorized | Forbidden)
        if not is_refusal or self._clock.monotonic() - self._failed_at > RECOVERY_SECONDS:
            return None
        return await self._if_away(attempts, OUTAGE_PAUSE_SECONDS)

    def _may_be_renewed(self) -> bool:
        """Whether another program may yet renew the token that is refused; for a minute in a row only."""
        if not self._transport.is_token_rotated or not self._was_accepted:
            return False
        now = self._clock.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        return now - self._refused_since < RENEWAL_SECONDS

    async def _is_ready(self) -> bool:
        """Whether the API server says that it is ready; a refusal to say counts too, as it then runs."""
        try:
            return (await self._transport.fetch(_READY)).strip() == b"ok"
        except APIStatusError as error:
            return error.code < 500 and bool(error.status)
        except ConnectionFailed:
            return False

    async def _attempt(self, request: APIRequest, read: Reading[T]) -> T:
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
                f"the answer to {request.shown} is not an API server's: {error}. {SUSPECTS}"
            ) from error
