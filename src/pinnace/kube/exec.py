"""Runs a command in a container of a pod: the sub-resource `pods/exec` over a websocket.

Each message is one byte, the channel, and its data: 1 is the command's standard output, 2 its standard
error, 3 the final Status. Channels are streams of bytes: a message may end within a character.
Of the two protocols of today's servers, v5 adds to v4 only what concerns standard input, which is not used.
Outputs are passed on as they arrive and never kept here.

RBAC: a websocket begins with a GET, so servers ask for the verb `get` on `pods/exec`; from Kubernetes 1.35
on, servers also require `create`, as clients with SPDY always needed it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson

from pinnace.api.values.digits import is_digits
from pinnace.kube.errors import (
    APIStatusError,
    BadRequest,
    ConnectionFailed,
    ExecTimeout,
    InvalidResponse,
    KubeError,
    status_error,
)
from pinnace.kube.resources import PODS
from pinnace.kube.transport.requests import APIRequest, Output
from pinnace.kube.transport.retrying import Sender

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
HANDSHAKE_SECONDS = 60.0
"""The server answers only after the pod's node did; its own limit for that is 30 s."""
CLOSE_SECONDS = 2.0
"""How long the closing handshake may take before the connection is dropped."""
MAXIMUM_STATUS_BYTES = 64 * 2**10

_STDOUT, _STDERR, _STATUS = 1, 2, 3
_EXIT_CODE = "NonZeroExitCode"


def exec_request(namespace: str, pod: str, container: str, command: Sequence[str]) -> APIRequest:
    """The request that starts a command, without standard input and without a terminal.

    Raises:
        InvalidName: the pod or namespace cannot be the name of an object.
    """
    query = [("container", container), ("stdout", "true"), ("stderr", "true")]
    query += [("command", word) for word in command]
    return APIRequest(
        method="GET",
        path=f"{PODS.path(namespace, pod, 'exec')}?{urlencode(query)}",
        accept="*/*",
        timeout_seconds=HANDSHAKE_SECONDS,
        acts=True,
    )


async def run_command(
    sender: Sender, request: APIRequest, *, stdout: Output, stderr: Output, timeout_seconds: float | None
) -> int:
    """Run a command until it ends, and return its exit code.

    Args:
        request: made by `exec_request`.
        stdout, stderr: get the command's output.
        timeout_seconds: for everything; None for no limit. Then the connection is closed, as it is on
            cancellation. The command itself is not stopped by that: Kubernetes has no way to.

    Raises:
        ExecTimeout: it did not end in time.
        APIStatusError: it could not be started: no such pod or container, not allowed, no such program.
        ConnectionFailed: no connection, or it broke; the command may have run.
    """
    channels = Channels(stdout=stdout, stderr=stderr)
    try:
        async with asyncio.timeout(timeout_seconds) as limit, _connected(sender, request) as socket:
            async for message in socket:
                channels.take(message)
                if channels.status is not None:
                    limit.reschedule(None)  # a slow closing handshake is not a slow command
                    return exit_code(channels.status)
    except TimeoutError:
        raise ExecTimeout(f"the command did not end within {timeout_seconds:g} seconds") from None
    raise ConnectionFailed("the connection to the container ended before the command did")


class Channels:
    """Passes messages on by channel. `status` is the final Status, once it is complete."""

    def __init__(self, *, stdout: Output, stderr: Output) -> None:
        self.status: Mapping[str, Any] | None = None
        self._outputs = {_STDOUT: stdout, _STDERR: stderr}
        self._status_bytes = bytearray()

    def take(self, message: aiohttp.WSMessage) -> None:
        """Pass on one message.

        Raises:
            ConnectionFailed: it says that the connection broke.
            InvalidResponse: it is not part of the protocol.
        """
        if message.type is aiohttp.WSMsgType.ERROR:
            raise ConnectionFailed("the connection to the container broke") from message.data
        if message.type is not aiohttp.WSMsgType.BINARY:
            raise InvalidResponse("the server sent a message that is not of the exec protocol")
        data: bytes = message.data
        # Empty messages announce channels; unknown channels belong to later protocols.
        channel, content = data[:1], data[1:]
        if not content:
            return
        if channel[0] == _STATUS:
            self._take_status(content)
        elif channel[0] in self._outputs:
            self._outputs[channel[0]](content)

    def _take_status(self, content: bytes) -> None:
        self._status_bytes += content
        if len(self._status_bytes) > MAXIMUM_STATUS_BYTES:
            raise InvalidResponse(f"the command's status is larger than {MAXIMUM_STATUS_BYTES} bytes")
        try:
            document = orjson.loads(self._status_bytes)
        except orjson.JSONDecodeError:
            return  # the rest is still to come
        if not isinstance(document, dict):
            raise InvalidResponse("the command's status is not an object")
        self.status = document


def exit_code(status: Mapping[str, Any]) -> int:
    """The exit code in a final Status.

    Raises:
        APIStatusError: the command did not run, or its outcome is unknown.
    """
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == _EXIT_CODE:
        details = status.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        for cause in causes if isinstance(causes, list) else ():
            text = cause.get("message") if isinstance(cause, dict) else None
            if isinstance(text, str) and is_digits(text):
                return int(text)
    code = status.get("code")
    raise status_error(code if isinstance(code, int) else 500, status)


@asynccontextmanager
async def _connected(sender: Sender, request: APIRequest) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    try:
        socket = await sender.upgrade(request, PROTOCOLS)
    except APIStatusError as error:
        raise _explained(error) from error
    try:
        if socket.protocol is None:
            raise InvalidResponse(
                f"the server speaks none of the exec protocols {' and '.join(PROTOCOLS)}; "
                "it is too old, or a proxy in front of it changes requests"
            )
        yield socket
    finally:
        # Cancelled, `close` cuts the connection.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await socket.close()


def _explained(error: APIStatusError) -> KubeError:
    """Explain a refusal to upgrade, which is not the fault of the request; other errors as they are."""
    if (isinstance(error, BadRequest) and "upgrade" in error.message.lower()) or error.code == 426:
        return InvalidResponse(
            f"commands in pods need a websocket, which is refused: {error.message}; "
            "a proxy in front of the API server may not support websockets"
        )
    return error
