"""Requests to an API server: their attributes, and the statuses of success."""

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import msgspec

from pinnace.aio.fence import Fence
from pinnace.api.values.digits import is_digits
from pinnace.kube.transport.timeouts import DEFAULT_TIMEOUT_SECONDS

Output = Callable[[bytes], None]
"""Gets a piece of a command's output; must be quick, as it is called on the event loop."""
SUCCESS: Mapping[str, frozenset[int]] = {
    "GET": frozenset({200}),
    "POST": frozenset({200, 201, 202}),
    "PUT": frozenset({200, 201}),
    "PATCH": frozenset({200, 201}),
    "DELETE": frozenset({200, 202}),
}
"""The statuses of success for each verb, as the OpenAPI document of API servers lists them."""
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"


class APIRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        path: including the query, if any.
        timeout_seconds: for one attempt, from sending to the last byte of the answer.
        stall_seconds: the longest silence allowed within it.
        comparable: whether its latency reflects the server's load (see `limiting`).
        acts: whether it changes something although its method is GET, as a command over a websocket.
        fence: what a write must pass, and what is told the Date of each answer; None for no fence.
        repeatable: whether a write may be sent again although the first one may have been carried out: it
            has the same effect, or the caller checks (`APIStatusError.after_open_attempt`).
        once: whether a passing failure is final, as the caller has another request to try.
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
    once: bool = False
    fence: Fence | None = None

    @property
    def writes(self) -> bool:
        """Whether the request may change something."""
        return self.acts or self.method != "GET"

    def check_fence(self) -> None:
        """Return if it may be sent at this moment. Raises FenceClosed."""
        if self.fence is not None and self.writes:
            self.fence.check()

    @property
    def may_repeat(self) -> bool:
        """Whether repeating it is safe."""
        return not self.once and (self.repeatable or not self.writes)

    @property
    def shown(self) -> str:
        """Method and path, for error texts."""
        return f"{self.method} {self.path.partition('?')[0]}"


def with_query(path: str, params: Mapping[str, str] | None) -> str:
    """The path with a query of the parameters that have a value."""
    query = urlencode({name: value for name, value in (params or {}).items() if value})
    return f"{path}?{query}" if query else path


def retry_after_seconds(header: str) -> float | None:
    """The seconds in a Retry-After header. API servers never use its date form (RFC 7231)."""
    return float(header) if is_digits(header) else None
