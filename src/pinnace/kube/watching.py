"""Reads the stream of a watch: splits chunks into lines and parses lines into events."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import orjson

from pinnace.aio.lines import LineSplitter, LineTooLong
from pinnace.api.objects import JSONObject
from pinnace.kube.answers import Expected
from pinnace.kube.errors import SUSPECTS, ConnectionFailed, InvalidResponse, status_error
from pinnace.kube.lists.deep import pruned
from pinnace.kube.transport.connection import Transport
from pinnace.kube.transport.requests import APIRequest

MAXIMUM_LINE_BYTES = 64 * 2**20
"""Above the largest object of etcd (1.5 MiB by default), below what would need too much memory."""
WATCH_SECONDS = 30
"""How long the server is asked to keep a watch open. It sends a bookmark just before the end, so that
something arrives in any case, and the next watch continues from there."""
GRACE_SECONDS = 10.0
"""A watch that has not ended this long after its time is stalled; with `WATCH_SECONDS` this is noticed in
less than a minute. The server's own periodic bookmarks are a minute apart."""

_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class WatchEvent(msgspec.Struct, frozen=True):
    """One event. `type` is ADDED, MODIFIED, DELETED or BOOKMARK; of a bookmark's object only
    `metadata.resourceVersion` counts."""

    type: str
    object: dict[str, Any]


async def read_events(
    transport: Transport, request: APIRequest, expected: Expected
) -> AsyncGenerator[WatchEvent, None]:
    """Open one watch and yield its events until the server ends it.

    Close the iterator (`contextlib.aclosing`) to end it early.

    Args:
        expected: what each object must be; a bookmark has no name.

    Raises:
        APIStatusError: as an answer, or as an ERROR event; `Gone` means: list again.
        ConnectionFailed: the stream was cut or fell silent.
        InvalidResponse: it held something other than events of such objects.
    """
    splitter = LineSplitter(MAXIMUM_LINE_BYTES)
    async with transport.open(request) as chunks:
        async for chunk in chunks:
            try:
                for line in splitter.feed(chunk):
                    yield _event(line, expected)
            except LineTooLong as error:
                raise InvalidResponse(f"an event of the watch is {error}") from error
            except InvalidResponse as error:
                raise InvalidResponse(
                    f"an event of {request.shown} is not an API server's: {error}. {SUSPECTS}"
                ) from error
    if splitter.has_rest:
        raise ConnectionFailed(f"the watch of {transport.server} was cut in the middle of an event")


def _event(line: bytes, expected: Expected) -> WatchEvent:
    document = _parsed(line)
    body, kind = document.get("object"), document.get("type")
    if not isinstance(body, dict):
        raise InvalidResponse("it has no object")
    if kind == "ERROR":
        code = body.get("code")
        raise status_error(code if isinstance(code, int) else 500, body)
    if kind not in _TYPES:
        raise InvalidResponse("its type is none of an event")
    metadata = body.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not isinstance(version, str) or not version:
        raise InvalidResponse("its object has no resourceVersion")
    if kind == "BOOKMARK":
        return WatchEvent(kind, body)
    expected.check_object(body)
    return WatchEvent(kind, body)


def _parsed(line: bytes) -> JSONObject:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        # Without levels that are nested too deeply: an object that cannot be parsed must not end all watches.
        try:
            document = orjson.loads(pruned(line))
        except orjson.JSONDecodeError as error:
            raise InvalidResponse(f"it is not JSON: {error.msg}") from None
    if not isinstance(document, dict):
        raise InvalidResponse("it is no object")
    return document
