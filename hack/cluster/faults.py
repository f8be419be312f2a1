"""Faults between a client and a server, and rules that say when they happen, as data.

Pure: nothing here does I/O. `proxy.py` carries the faults out.

    Respond           answer in the server's place; the server never sees the request
    CutBeforeRequest  the connection breaks; the server never sees the request
    DropResponse      the server acts, but the client only sees the connection break
    ActAndRespond     the server acts, but the client gets another answer
    Rewrite           the server acts, but the client gets its answer with another body
    ShiftDate         the server acts, but its answer says that it was another time
    CutBody           the connection breaks after so many bytes of the response's body
    Stall             nothing moves until the rule is released (or the client gives up)
    ExpireContinue    410 Gone, as when a continue token outlived etcd's compaction
    Pass              nothing goes wrong; shields a request from the rules after this one
"""

import asyncio
import json
import random
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer with this status, these headers and this body."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CutBeforeRequest:
    """Break the connection without telling the server."""


@dataclass(frozen=True, slots=True)
class DropResponse:
    """Let the server do it, wait for its whole answer, then break the connection."""


@dataclass(frozen=True, slots=True)
class ActAndRespond:
    """Let the server do it, wait for its whole answer, then give this one in its place."""

    answer: Respond


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Let the server do it, wait for its whole answer, then pass it on with the body that `change` returns.

    Only for bodies that are not compressed.
    """

    change: Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class ShiftDate:
    """Pass everything on, with a Date header that is so much later: as from a server with another clock."""

    by: timedelta


@dataclass(frozen=True, slots=True)
class CutBody:
    """Pass status, headers and the first bytes of the body (as sent, so maybe compressed), then break."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class Stall:
    """Hold the request back until the rule is released, then continue as without the fault.

    With `after_bytes`, the server gets the request, and status, headers and that much of the body pass
    first; without, the server sees nothing until then.
    """

    after_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ExpireContinue:
    """Answer 410 to a list request that has a continue token.

    Args:
        offer_token: whether the answer has a token in `metadata.continue` for the client to go on at the
            newest state, as the API server offers. The token is a real one: the server accepts it.
    """

    offer_token: bool


@dataclass(frozen=True, slots=True)
class Pass:
    """Let the request through untouched."""


Fault = (
    Respond
    | CutBeforeRequest
    | DropResponse
    | ActAndRespond
    | Rewrite
    | ShiftDate
    | CutBody
    | Stall
    | ExpireContinue
    | Pass
)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The part of a request that rules look at. The path is decoded, the query has first values only."""

    method: str
    path: str
    query: Mapping[str, str]


class Rule:
    """A fault, its conditions (see `RuleList.add`, which makes rules), and how often it struck."""

    def __init__(
        self,
        fault: Fault,
        *,
        method: str = "",
        path: str = "",
        query: Mapping[str, str] | None = None,
        skip: int = 0,
        times: int | None = None,
        probability: float = 1.0,
    ) -> None:
        self.fault = fault
        self.matches_seen = 0
        """The number of requests that met the conditions, whether the fault struck or not."""
        self.hits = 0
        """The number of times that the fault struck."""
        self.released = asyncio.Event()
        """Set by `release()`; a Stall waits for it."""
        self._method = re.compile(method or ".*", re.IGNORECASE)
        self._path = re.compile(path)
        self._query = {name: re.compile(pattern) for name, pattern in (query or {}).items()}
        self._skip = skip
        self._times = times
        self._probability = probability
        self._struck = asyncio.Event()

    def release(self) -> None:
        """Let the requests continue that this rule stalls, now and later."""
        self.released.set()

    async def struck(self, *, timeout_seconds: float = 120.0) -> None:
        """Wait until the fault has struck once.

        Raises:
            TimeoutError: no such request came.
        """
        async with asyncio.timeout(timeout_seconds):
            await self._struck.wait()

    def strikes(self, head: RequestHead, chance: random.Random) -> bool:
        """Say whether the fault strikes this request, and count."""
        if not self._matches(head):
            return False
        self.matches_seen += 1
        if self.matches_seen <= self._skip or (self._times is not None and self.hits >= self._times):
            return False
        if self._probability < 1.0 and chance.random() >= self._probability:
            return False
        self.hits += 1
        self._struck.set()
        return True

    def _matches(self, head: RequestHead) -> bool:
        return (
            self._method.fullmatch(head.method) is not None
            and self._path.search(head.path) is not None
            and all(
                name in head.query and pattern.search(head.query[name])
                for name, pattern in self._query.items()
            )
            and (not isinstance(self.fault, ExpireContinue) or bool(head.query.get("continue")))
        )


class RuleList:
    """Rules in the order of their addition; the first that strikes decides.

    Args:
        seed: of the chance behind `probability`, so that a failing test can be run again the same way.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self._rules: list[Rule] = []
        self._chance = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def add(
        self,
        fault: Fault,
        *,
        method: str = "",
        path: str = "",
        query: Mapping[str, str] | None = None,
        skip: int = 0,
        times: int | None = None,
        probability: float = 1.0,
    ) -> Rule:
        """Add a rule and return it. Every condition given must hold; with none, each request matches.

        Args:
            fault: what happens to a request that the rule strikes.
            method: regular expression for the whole method, such as "POST|PATCH".
            path: regular expression found anywhere in the decoded path; anchor it with ^ and $.
            query: regular expression by parameter name; the parameter must be there. `{"watch": "1|true"}`
                matches watches, `{"continue": "."}` the second and later pages of a list.
            skip: how many matching requests go by first; with `times=1` this picks the n-th request.
            times: how often the fault strikes at most; None is for ever.
            probability: of striking, for each matching request, from 0 to 1.
        """
        rule = Rule(
            fault, method=method, path=path, query=query, skip=skip, times=times, probability=probability
        )
        self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Remove a rule, and release the requests that it stalls."""
        self._rules.remove(rule)
        rule.release()

    def clear(self) -> None:
        """Remove all rules, and release all stalled requests."""
        for rule in list(self._rules):
            self.remove(rule)

    def choose(self, head: RequestHead) -> Rule | None:
        """Return the rule that strikes this request, if any."""
        return next((rule for rule in self._rules if rule.strikes(head, self._chance)), None)


def api_error(
    code: int,
    reason: str,
    message: str,
    *,
    headers: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Respond:
    """Answer as an API server does that refuses: a Status object."""
    body = json.dumps(_status(code, reason, message, metadata or {})).encode()
    return Respond(code, body, {"Content-Type": "application/json", **(headers or {})})


def too_many_requests(*, retry_after_seconds: int | None = 1) -> Respond:
    """Answer 429 as API priority and fairness does."""
    headers = {} if retry_after_seconds is None else {"Retry-After": str(retry_after_seconds)}
    message = "Too many requests, please try again later."
    return api_error(429, "TooManyRequests", message, headers=headers)


def server_fault(code: int = 500) -> Respond:
    """Answer 5xx: 500 with a Status, the others as bare text like a load balancer between."""
    if code == 500:
        return api_error(500, "InternalError", "Internal error occurred: injected")
    return Respond(code, b"upstream connect error", {"Content-Type": "text/plain"})


def watch_expired() -> Respond:
    """Answer a watch the way the API server does when the resourceVersion is too old: 200, then an ERROR."""
    status = _status(410, "Expired", "too old resource version: 1 (2)", {})
    event = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    return Respond(200, event, {"Content-Type": "application/json"})


def s3_error(status: int, code: str, message: str = "injected") -> Respond:
    """Answer as an S3 server does that refuses, for example `s3_error(503, "SlowDown")`."""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>0</RequestId></Error>"
    )
    return Respond(status, body.encode(), {"Content-Type": "application/xml"})


def expired(fault: ExpireContinue, token: str) -> Respond:
    """Return the answer of a fault for the client's continue token."""
    metadata = {"continue": inconsistent_token(token)} if fault.offer_token else {}
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a "
        "new list without the continue parameter, or use the continue token in this response to retrieve "
        "the remainder of the results."
    )
    return api_error(410, "Expired", message, metadata=metadata)


def inconsistent_token(token: str) -> str:
    """Return the token that continues after the same key at the newest state.

    A continue token is unpadded base64url of JSON: `{"v": ..., "rv": <resourceVersion>, "start": <key>}`;
    with `rv` -1 the API server reads from its newest state, and that is what its own 410 offers.
    """
    decoded: dict[str, Any] = json.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    decoded["rv"] = -1
    return urlsafe_b64encode(json.dumps(decoded, separators=(",", ":")).encode()).decode().rstrip("=")


def _status(code: int, reason: str, message: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": dict(metadata),
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
