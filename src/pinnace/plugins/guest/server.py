"""The gRPC server of a plugin's process: every method, and errors with their origin. (PLG 5, 8)"""

import asyncio
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty as GoogleEmpty

from pinnace.plugins.calling import contained
from pinnace.plugins.errors import PluginError, PluginPanic, describe
from pinnace.plugins.guest.instances import Instances
from pinnace.plugins.guest.later import LaterActionServices
from pinnace.plugins.guest.services import ActionServices, SnapshotterServices, StoreServices
from pinnace.plugins.kinds import PluginKind
from pinnace.plugins.protocol import methods
from pinnace.plugins.protocol import support_pb2 as support
from pinnace.plugins.protocol import velero_pb2 as wire
from pinnace.plugins.protocol.methods import Method

_SERVICE_OF_PLUGINS = "plugin"
# Errors travel in headers, and gRPC takes 8 KiB of those.
_TEXT_LENGTH = 2000
_FRAMES = 10
_APPLIES_TO: Mapping[PluginKind, Method[Any, Any]] = {
    PluginKind.BACKUP_ITEM_ACTION: methods.BACKUP_APPLIES_TO,
    PluginKind.RESTORE_ITEM_ACTION: methods.RESTORE_APPLIES_TO,
    PluginKind.DELETE_ITEM_ACTION: methods.DELETE_APPLIES_TO,
    PluginKind.BACKUP_ITEM_ACTION_V2: methods.BACKUP_V2_APPLIES_TO,
    PluginKind.RESTORE_ITEM_ACTION_V2: methods.RESTORE_V2_APPLIES_TO,
    PluginKind.ITEM_BLOCK_ACTION: methods.BLOCK_APPLIES_TO,
}
SERVER_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class PluginServer(grpc.GenericRpcHandler):
    """Answers a host.

    Args:
        instances: the plugins.
        command: how this program was started, which a host may start again.

    Attributes:
        ended: set when the host asks to end.
    """

    def __init__(self, instances: Instances, command: str) -> None:
        self.ended = asyncio.Event()
        self._instances = instances
        self._command = command
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self._add_support()
        self._add_actions(ActionServices(instances))
        self._add_later_actions(LaterActionServices(instances))
        self._add_stores(StoreServices(instances), SnapshotterServices(instances))

    def service(self, details: Any) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """The handler of a method; None for unknown ones, which the host hears as UNIMPLEMENTED."""
        return self._handlers.get(details.method)

    def _add_support(self) -> None:
        async def list_plugins(_: wire.Empty) -> wire.ListPluginsResponse:
            return wire.ListPluginsResponse(
                plugins=[
                    wire.PluginIdentifier(command=self._command, kind=plugin.kind, name=plugin.name)
                    for plugin in self._instances.ids
                ]
            )

        async def shutdown(_: GoogleEmpty) -> GoogleEmpty:
            self.ended.set()
            return GoogleEmpty()

        async def health(request: support.HealthCheckRequest) -> support.HealthCheckResponse:
            known = request.service in ("", _SERVICE_OF_PLUGINS)
            return support.HealthCheckResponse(status=support.SERVING if known else support.UNKNOWN)

        self._unary(methods.LIST_PLUGINS, list_plugins)
        self._unary(methods.SHUTDOWN, shutdown)
        self._unary(methods.HEALTH_CHECK, health)

    def _add_actions(self, actions: ActionServices) -> None:
        for kind, method in _APPLIES_TO.items():
            self._unary(method, actions.applies_to(kind, method))
        self._unary(methods.BACKUP_EXECUTE, actions.backup_execute)
        self._unary(methods.RESTORE_EXECUTE, actions.restore_execute)
        self._unary(methods.DELETE_EXECUTE, actions.delete_execute)

    def _add_later_actions(self, actions: LaterActionServices) -> None:
        backup, restore = PluginKind.BACKUP_ITEM_ACTION_V2, PluginKind.RESTORE_ITEM_ACTION_V2
        self._unary(methods.BACKUP_V2_PROGRESS, actions.progress(backup, methods.BACKUP_V2_PROGRESS))
        self._unary(methods.RESTORE_V2_PROGRESS, actions.progress(restore, methods.RESTORE_V2_PROGRESS))
        self._unary(methods.BACKUP_V2_CANCEL, actions.cancel(backup))
        self._unary(methods.RESTORE_V2_CANCEL, actions.cancel(restore))
        self._unary(methods.BACKUP_V2_EXECUTE, actions.backup_execute)
        self._unary(methods.RESTORE_V2_EXECUTE, actions.restore_execute)
        self._unary(methods.RESTORE_V2_READY, actions.restore_ready)
        self._unary(methods.BLOCK_RELATED_ITEMS, actions.block_related_items)

    def _add_stores(self, stores: StoreServices, snapshotters: SnapshotterServices) -> None:
        self._unary(methods.STORE_INIT, stores.init)
        self._upload(methods.PUT_OBJECT, stores.put_object)
        self._unary(methods.OBJECT_EXISTS, stores.object_exists)
        self._download(methods.GET_OBJECT, stores.get_object)
        self._unary(methods.LIST_COMMON_PREFIXES, stores.list_common_prefixes)
        self._unary(methods.LIST_OBJECTS, stores.list_objects)
        self._unary(methods.DELETE_OBJECT, stores.delete_object)
        self._unary(methods.CREATE_SIGNED_URL, stores.create_signed_url)
        self._unary(methods.SNAPSHOTTER_INIT, snapshotters.init)
        self._unary(methods.CREATE_VOLUME, snapshotters.create_volume)
        self._unary(methods.GET_VOLUME_INFO, snapshotters.get_volume_info)
        self._unary(methods.CREATE_SNAPSHOT, snapshotters.create_snapshot)
        self._unary(methods.DELETE_SNAPSHOT, snapshotters.delete_snapshot)
        self._unary(methods.GET_VOLUME_ID, snapshotters.get_volume_id)
        self._unary(methods.SET_VOLUME_ID, snapshotters.set_volume_id)

    def _unary(
        self,
        method: Method[methods.RequestT, methods.ResponseT],
        answer: Callable[[methods.RequestT], Awaitable[methods.ResponseT]],
    ) -> None:
        async def handle(request: methods.RequestT, context: Any) -> methods.ResponseT:
            try:
                return await contained(answer, request)
            except Exception as error:  # noqa: BLE001 - foreign code; the host gets it
                await _abort(context, error)

        self._add(grpc.unary_unary_rpc_method_handler, method, handle)

    def _upload(
        self,
        method: Method[methods.RequestT, methods.ResponseT],
        answer: Callable[[AsyncIterator[methods.RequestT]], Awaitable[methods.ResponseT]],
    ) -> None:
        async def handle(requests: AsyncIterator[methods.RequestT], context: Any) -> methods.ResponseT:
            try:
                return await contained(answer, _whole(requests, context))
            except Exception as error:  # noqa: BLE001 - foreign code; the host gets it
                await _abort(context, error)

        self._add(grpc.stream_unary_rpc_method_handler, method, handle)

    def _download(
        self,
        method: Method[methods.RequestT, methods.ResponseT],
        answer: Callable[[methods.RequestT], AsyncGenerator[methods.ResponseT, None]],
    ) -> None:
        async def send(request: methods.RequestT, context: Any) -> None:
            async with aclosing(answer(request)) as responses:
                async for response in responses:
                    await context.write(response)

        async def handle(request: methods.RequestT, context: Any) -> None:
            try:
                await contained(send, request, context)
            except Exception as error:  # noqa: BLE001 - foreign code; the host gets it
                await _abort(context, error)

        self._add(grpc.unary_stream_rpc_method_handler, method, handle)

    def _add(
        self, make: "Callable[..., grpc.RpcMethodHandler[Any, Any]]", method: Method[Any, Any], handle: Any
    ) -> None:
        self._handlers[method.path] = make(
            handle,
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )


async def _whole(requests: AsyncIterator[methods.RequestT], context: Any) -> AsyncIterator[methods.RequestT]:
    """The requests of a stream that ended well.

    A stream that the host cancelled ends for gRPC like any other, and its handler is cancelled only a moment
    later: half an object would be stored. To an open call headers can be sent, to a cancelled one not.
    """
    async for request in requests:
        yield request
    try:
        await context.send_initial_metadata(())
    except (grpc.aio.InternalError, grpc.aio.UsageError) as error:
        raise PluginError("the host cancelled the call") from error


async def _abort(context: Any, error: Exception) -> NoReturn:
    """Answer with an error: UNKNOWN and its text, ABORTED for a panic. (PLG 8)"""
    text = describe(error)[:_TEXT_LENGTH]
    code = grpc.StatusCode.UNKNOWN
    if isinstance(error, PluginPanic):
        code, text = grpc.StatusCode.ABORTED, f"plugin panicked: {text}"
    number, _ = code.value
    status = support.Status(code=number, message=text, details=[_stack_detail(error)])
    details = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(code, text, trailing_metadata=details)
    raise AssertionError("abort() raises")


def _stack_detail(error: BaseException) -> AnyMessage:
    """Where it was raised, innermost frame first."""
    frames = [
        wire.StackFrame(file=frame.filename, line=frame.lineno or 0, function=frame.name)
        for frame in reversed(traceback.extract_tb(error.__traceback__))
    ]
    detail = AnyMessage()
    detail.Pack(wire.Stack(frames=frames[:_FRAMES]))
    return detail
