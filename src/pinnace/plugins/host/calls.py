"""Calls over one connection: their deadlines, and errors in Velero's words. (docs/spec: PLG 6.3, 8)"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from pinnace.plugins.errors import CodePosition, PluginCallError, PluginGone
from pinnace.plugins.host.uploads import upload
from pinnace.plugins.protocol.methods import MAX_MESSAGE_BYTES, Method, RequestT, ResponseT
from pinnace.plugins.protocol.support_pb2 import Status
from pinnace.plugins.protocol.velero_pb2 import Stack

_DETAILS = "grpc-status-details-bin"
_GO_NAMES = {grpc.StatusCode.CANCELLED: "Canceled", grpc.StatusCode.OK: "OK"}
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    # A call that a crash interrupted is not repeated: its outcome is unknown. (docs/spec: PLG 8)
    ("grpc.enable_retries", 0),
    ("grpc.default_authority", "localhost"),
]


class Connection:
    """The gRPC channel to a plugin's process."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        self._uploads: grpc.Channel | None = None
        self._callables: dict[str, Any] = {}

    async def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        await self._channel.close()
        if self._uploads is not None:
            self._uploads.close()

    async def unary(
        self, plugin: str, method: Method[RequestT, ResponseT], request: RequestT, deadline_seconds: float
    ) -> ResponseT:
        """One question, one answer. Raises PluginCallError."""
        try:
            response: ResponseT = await self._callable("unary_unary", method)(
                request, timeout=deadline_seconds
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise PluginTimeout(plugin, method.name, deadline_seconds) from error
            raise translated(plugin, error) from error
        return response

    async def upload(
        self, plugin: str, method: Method[RequestT, ResponseT], batches: AsyncIterator[Sequence[RequestT]]
    ) -> ResponseT:
        """A stream of messages, one answer. The caller bounds the time. Raises PluginCallError.

        An answer that comes early ends it; when `batches` raises, the call is cancelled.
        """
        if self._uploads is None:
            self._uploads = grpc.insecure_channel(self._target, options=_OPTIONS)
        try:
            return await upload(self._uploads, method, batches)
        except grpc.RpcError as error:
            raise translated(plugin, error) from error

    async def download(
        self, plugin: str, method: Method[RequestT, ResponseT], request: RequestT, block_seconds: float | None
    ) -> AsyncGenerator[ResponseT, None]:
        """One question, a stream of answers; a deadline for each, if given. Raises PluginCallError."""
        call = self._callable("unary_stream", method)(request)
        try:
            while True:
                async with asyncio.timeout(block_seconds):
                    response = await call.read()
                if response is grpc.aio.EOF:
                    break
                yield response
        except grpc.RpcError as error:
            raise translated(plugin, error) from error
        except TimeoutError as error:
            raise PluginTimeout(plugin, method.name, block_seconds or 0.0) from error
        finally:
            call.cancel()

    def _callable(self, shape: str, method: Method[RequestT, ResponseT]) -> Any:
        known = self._callables.get(method.path)
        if known is None:
            known = self._callables[method.path] = getattr(self._channel, shape)(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
        return known


class PluginTimeout(PluginCallError):
    """A plugin did not answer in time; it may still work on the call."""

    def __init__(self, plugin: str, what: str, seconds: float) -> None:
        super().__init__(plugin, f"no answer to {what} within {seconds:g}s")


def translated(plugin: str, error: grpc.RpcError) -> PluginCallError:
    """The error of a call in the form of gRPC for Go: `rpc error: code = Unknown desc = …`."""
    code, details = error.code(), error.details() or ""
    reason = f"rpc error: code = {_code_name(code)} desc = {details}"
    if code is grpc.StatusCode.UNAVAILABLE:
        return PluginGone(plugin, reason)
    return PluginCallError(plugin, reason, origin=_origin(error))


def _code_name(code: grpc.StatusCode) -> str:
    return _GO_NAMES.get(code) or "".join(word.capitalize() for word in code.name.split("_"))


def _origin(error: grpc.RpcError) -> CodePosition | None:
    """The innermost frame of the stack that the plugin sent along, if it did. (docs/spec: PLG 8)"""
    metadata: Any = error.trailing_metadata() or ()  # the stubs describe another library's class
    for key, value in metadata:
        if key == _DETAILS:
            try:
                return _innermost(Status.FromString(value))
            except DecodeError:
                return None
    return None


def _innermost(status: Status) -> CodePosition | None:
    for detail in status.details:
        stack = Stack()
        if detail.Unpack(stack) and stack.frames:
            frame = stack.frames[0]
            return CodePosition(file=frame.file, line=frame.line, function=frame.function)
    return None
