"""The stream of a watch: lines out of chunks, events out of lines."""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from pinnace.kube.errors import ConnectionFailed, InvalidResponse, status_error
from pinnace.kube.transport.connection import Transport
from pinnace.kube.transport.requests import Request

MAXIMUM_LINE_BYTES = 64 * 2**20
"""Above anything etcd can store (1.5 MiB by default), below what would hurt us."""
DEFAULT_INACTIVITY_SECONDS = 120.0
"""The server sends a bookmark about every minute; two missed mean that nobody is there."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event. `type` is ADDED, MODIFIED, DELETED or BOOKMARK; of a bookmark's object only
    `metadata.resourceVersion` counts."""

    type: str
    object: dict[str, Any]


class LineSplitter:
    """Puts chunks together and cuts them into lines."""

    def __init__(self, maximum_bytes: int = MAXIMUM_LINE_BYTES) -> None:
        self._maximum_bytes = maximum_bytes
        self._parts: list[bytes] = []
        self._size_bytes = 0

    @property
    def has_rest(self) -> bool:
        """Whether there is the beginning of a line that has not ended yet."""
        return self._size_bytes > 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without line ends; empty ones are left out.

        Raises:
            InvalidResponse: if a line grows beyond the maximum.
        """
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            line = b"".join((*self._parts, piece)) if self._parts else piece
            self._parts.clear()
            self._size_bytes = 0
            if line:
                yield line
        if rest:
            self._parts.append(rest)
            self._size_bytes += len(rest)
            if self._size_bytes > self._maximum_bytes:
                raise InvalidResponse(f"an event of the watch is larger than {self._maximum_bytes} bytes")


async def read_events(transport: Transport, request: Request) -> AsyncGenerator[WatchEvent, None]:
    """Opens one watch and yields its events until the server ends it.

    Close the iterator (`contextlib.aclosing`) to end it early.

    Raises:
        APIStatusError: as an answer, or as an ERROR event; `Gone` means: list again.
        ConnectionFailed: the stream was cut or fell silent.
        InvalidResponse: it held something else than events.
    """
    splitter = LineSplitter()
    async with transport.open(request) as chunks:
        async for chunk in chunks:
            for line in splitter.feed(chunk):
                yield _event(line)
    if splitter.has_rest:
        raise ConnectionFailed(f"the watch of {transport.server} was cut in the middle of an event")


def _event(line: bytes) -> WatchEvent:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidResponse(f"the watch gave a line that is not JSON: {error.msg}") from None
    if not isinstance(document, dict) or not isinstance(document.get("object"), dict):
        raise InvalidResponse("the watch gave a line that is no event")
    body: dict[str, Any] = document["object"]
    kind = document.get("type")
    if kind == "ERROR":
        code = body.get("code")
        raise status_error(code if isinstance(code, int) else 500, body)
    if not isinstance(kind, str):
        raise InvalidResponse("the watch gave an event without a type")
    return WatchEvent(kind, body)
