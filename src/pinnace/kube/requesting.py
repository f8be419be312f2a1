"""The connections of a client to one API server, and any request by them."""

import copy
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.fence import Fence
from pinnace.aio.retrying import random_share
from pinnace.kube.answers import Reading, read_document
from pinnace.kube.errors import InvalidResponse
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.connection import Transport
from pinnace.kube.transport.limiting import InFlightLimit, RateCap
from pinnace.kube.transport.requests import JSON, APIRequest, with_query
from pinnace.kube.transport.retrying import Sender, ThrottledRetryPolicy
from pinnace.kube.transport.silence import Silence
from pinnace.kube.transport.timeouts import DEFAULT_TIMEOUT_SECONDS
from pinnace.store_access.user_agent import user_agent as own_user_agent

T = TypeVar("T")

MAXIMUM_IN_FLIGHT = 64
"""Beyond this, an API server only gets slower. (measured for creates)"""


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to `/version`: `v1.33.4`, `1`, `33`."""

    git_version: str
    major: str = ""
    minor: str = ""


class RequestClient:
    """The connections to one API server, as an async context manager that closes its connections at the end.

    Args:
        config: the server, and the user to authenticate as.
        user_agent: the User-Agent header; empty for that of `store_access.user_agent`. (docs/spec: CLI 1.4)
        timeout_seconds: for one attempt at a request about one object, and for the silence within a
            list; a page of a list as a whole may take longer.
        max_in_flight: the cap on requests at once; watches are not counted.
        rate: a cap on requests a second besides; watches are not counted.
        gzip: let the server compress its answers; worthwhile below about 400 Mbit/s.
        retry: how often and when to try again, and how long an outage of the server is waited out.
        jitter, clock: for tests.

    Attributes:
        fence: what writes pass; None for a client that needs no lease.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "",
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        max_in_flight: int = MAXIMUM_IN_FLIGHT,
        rate: RateCap | None = None,
        gzip: bool = False,
        retry: ThrottledRetryPolicy | None = None,
        jitter: Callable[[], float] = random_share,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        policy = retry or ThrottledRetryPolicy(patience_seconds=config.patience_seconds)
        self._timeout_seconds = min(timeout_seconds, policy.patience_seconds)
        self.fence: Fence | None = None
        self._context = config.context
        self._transport = Transport(config, user_agent=user_agent or own_user_agent(), gzip=gzip)
        self._limit = InFlightLimit(max_in_flight)
        self._sender = Sender(self._transport, self._limit, policy, rate=rate, jitter=jitter, clock=clock)

    @property
    def clock_difference(self) -> timedelta | None:
        """By how much the API server's clock was ahead of ours at its last answer; None if not known."""
        return self._transport.dates.difference

    def fenced(self, fence: Fence) -> Self:
        """This client for what only a leader may do: no write is sent while the fence is closed.

        It shares connections and limits, and is closed with this one. Its requests raise NotLeading besides.
        """
        other = copy.copy(self)
        other.fence, other._sender = fence, self._sender.fenced(fence)
        return other

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(error_type, error, traceback)

    @property
    def silence(self) -> Silence:
        """How long the API server has been away."""
        return self._sender.silence

    @property
    def server(self) -> str:
        """The server's base URL."""
        return self._transport.server

    @property
    def context(self) -> str:
        """The context of the kubeconfig; empty in a pod."""
        return self._context

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Send any request to a path of the server, and return the body of its answer.

        An answer in JSON is checked to be an object of any kind: prefer the other methods, which check the
        kind too.

        Raises:
            APIStatusError: the server refused.
            ConnectionFailed: no answer; a write may have been carried out nevertheless.
        """
        request = APIRequest(
            method=method,
            path=with_query(path, params),
            body=body,
            content_type=content_type,
            accept=accept,
            timeout_seconds=timeout_seconds or self._timeout_seconds,
        )
        return await self._sender.fetch(request, _checked_json if accept.startswith(JSON) else _unread)

    async def read(self, path: str, read: Reading[T], *, accept: str = JSON) -> T:
        """Return the result of `read` on the answer to a GET, which is repeated if `read` refuses it."""
        request = APIRequest(method="GET", path=path, accept=accept, timeout_seconds=self._timeout_seconds)
        return await self._sender.fetch(request, read)

    async def version(self) -> ServerVersion:
        """The server's version."""
        return await self.read("/version", _version)


def _unread(body: bytes) -> bytes:
    return body


def _checked_json(body: bytes) -> bytes:
    read_document(body)
    return body


def _version(body: bytes) -> ServerVersion:
    try:
        return msgspec.json.decode(body, type=ServerVersion)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidResponse(f"it is no valid version: {error}") from None
