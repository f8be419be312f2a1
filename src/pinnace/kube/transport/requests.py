"""What is sent to an API server and what comes back, before anybody interprets it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from pinnace.api.values.digits import is_digits

DEFAULT_TIMEOUT_SECONDS = 30.0
"""A request that reads or writes one object; the API server's own limit is 60 s."""
LIST_TIMEOUT_SECONDS = 120.0
"""One page of a list: its size, not only the server's speed, decides how long it takes."""
DEFAULT_PATIENCE_SECONDS = 300.0
"""How long an outage of the API server is waited out: an upgrade of a control plane with one server."""
CONNECT_SECONDS = 10.0
"""Until a connection, with TLS, stands."""
Output = Callable[[bytes], None]
"""Takes a piece of what a command in a container prints; quick, for it is called on the event loop."""
SUCCESS: Mapping[str, frozenset[int]] = {
    "GET": frozenset({200}),
    "POST": frozenset({200, 201, 202}),
    "PUT": frozenset({200, 201}),
    "PATCH": frozenset({200, 201}),
    "DELETE": frozenset({200, 202}),
}
"""The statuses with which an API server tells of success, by verb, as its OpenAPI document lists them."""
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    Attributes:
        path: with the query, if it has one.
        timeout_seconds: for one attempt, from sending to the last byte of the answer.
        stall_seconds: the longest silence allowed within it.
        comparable: whether its latency tells of the server's load (see `limiting`).
        acts: that something is done by it although its method is GET, as by a command over a websocket.
        repeatable: that sending a write again does no harm although the first may have acted: it would do
            the same again, or the caller looks what is there (`APIStatusError.after_open_attempt`).
    """

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    stall_seconds: float | None = None
    comparable: bool = True
    acts: bool = False
    repeatable: bool = False

    @property
    def may_repeat(self) -> bool:
        """Whether repeating it can do no harm."""
        return self.repeatable or (self.method == "GET" and not self.acts)

    @property
    def shown(self) -> str:
        """Method and path, for error texts."""
        return f"{self.method} {self.path.partition('?')[0]}"


def with_query(path: str, params: Mapping[str, str] | None) -> str:
    """The path with those parameters that have a value."""
    query = urlencode({name: value for name, value in (params or {}).items() if value})
    return f"{path}?{query}" if query else path


def retry_after_seconds(header: str) -> float | None:
    """What a Retry-After asks for. Its date form (RFC 7231) is never used by API servers."""
    return float(header) if is_digits(header) else None
