"""Prints each request to an API server or a store when it is answered, if the user asks for it (`-v=6`).

A line has method, URL, status and time. A higher level adds headers to those of API servers, but none that
may hold credentials. No level prints bodies, which may be those of Secrets, nor the queries of addresses of
stores, which may be signed.
"""

import logging
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

REQUESTS: Final = 6
"""The lowest verbosity that prints requests; the numbers are those of kubectl."""
HEADERS: Final = 7
"""The lowest verbosity that prints the headers of requests."""
ANSWERS: Final = 8
"""The lowest verbosity that prints the headers of answers."""

log = logging.getLogger(__name__)
_LOWEST: Final = logging.DEBUG - 1
"""Below DEBUG, so that a server with a debug log prints no requests."""
_CREDENTIALS: Final = "(?i)auth|cookie|token|secret|key|passw|credential|signature|location"
"""Headers that may hold credentials; an address that a redirect leads to may be signed."""
_LEFT_OUT: Final = "[not shown]"


def level(verbosity: int) -> int:
    """The level of log records that are printed from a verbosity on."""
    return _LOWEST - (verbosity - REQUESTS)


def traces(verbosity: int = REQUESTS) -> bool:
    """Whether requests are printed at a verbosity."""
    return log.isEnabledFor(level(verbosity))


class TracedRequest:
    """One request that is traced from now on.

    Args:
        url: the whole URL. A user before the host and commands in its query are not printed: they may hold
            passwords.
    """

    def __init__(self, method: str, url: str) -> None:
        self._title = f"{method} {_printable(url)}"
        self._started = time.monotonic()

    def sent(self, headers: Iterable[tuple[str, str]]) -> None:
        """Print the headers of the request, if the level asks for them."""
        self._print_headers(HEADERS, "Request", headers)

    def answered(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Print the request with the status of its answer."""
        from http import HTTPStatus  # loaded only for a trace: most commands print none

        reason = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
        log.log(level(REQUESTS), "%s %s in %d ms", self._title, f"{status} {reason}".strip(), self._ms)
        self._print_headers(ANSWERS, "Response", headers)

    def failed(self, reason: object) -> None:
        """Print the request, which got no answer, with the reason."""
        log.log(level(REQUESTS), "%s failed after %d ms: %s", self._title, self._ms, reason)

    @property
    def _ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)

    @staticmethod
    def _print_headers(verbosity: int, title: str, headers: Iterable[tuple[str, str]]) -> None:
        if not traces(verbosity):
            return
        lines = [
            f"    {name}: {_LEFT_OUT if re.search(_CREDENTIALS, name) else value}" for name, value in headers
        ]
        if lines:
            log.log(level(verbosity), "%s headers:\n%s", title, "\n".join(lines))


def _printable(url: str) -> str:
    parts = urlsplit(url)
    parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    if "command=" not in parts.query:
        return urlunsplit(parts)
    kept = [(name, _LEFT_OUT if name == "command" else value) for name, value in parse_qsl(parts.query)]
    return urlunsplit(parts._replace(query=urlencode(kept, safe="[] ")))


def of_store(*, shows_paths: bool = True) -> list[Any]:
    """The `trace_configs` of an aiohttp session with a store: none if nothing is traced.

    Args:
        shows_paths: whether the paths of URLs are printed: those of some services are their keys.
    """
    if not traces():
        return []
    import aiohttp

    config = aiohttp.TraceConfig()

    async def started(_session: Any, context: Any, params: Any) -> None:
        url = params.url.with_user(None).with_query(None) if shows_paths else params.url.origin()
        context.request = TracedRequest(params.method, str(url))

    async def ended(_session: Any, context: Any, params: Any) -> None:
        context.request.answered(params.response.status, ())

    async def failed(_session: Any, context: Any, params: Any) -> None:
        context.request.failed(type(params.exception).__name__)

    config.on_request_start.append(started)
    config.on_request_end.append(ended)
    config.on_request_exception.append(failed)
    return [config]


@contextmanager
def traced(verbosity: int, write: logging.Handler) -> Iterator[None]:
    """Print requests up to a verbosity, by a handler, until the context ends."""
    if verbosity < REQUESTS:
        yield
        return
    before, propagates = log.level, log.propagate
    log.setLevel(level(min(verbosity, ANSWERS)))
    log.addHandler(write)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(write)
        log.setLevel(before)
        log.propagate = propagates
