"""Answers the calls of Velero 1.11 and later: of item actions of version 2 and item block actions.

(docs/spec: BEY 9)
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import orjson
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.asynchronous import (
    BackupItemActionV2,
    BackupItemOutput,
    ItemBlockAction,
    OperationProgress,
    RestoreItemActionV2,
)
from pinnace.plugins.calling import checked_item
from pinnace.plugins.guest.services import AnyActionServices, identifier_messages, object_of, restore_input
from pinnace.plugins.kinds import PluginKind
from pinnace.plugins.protocol import velero_blocks_pb2 as blocks
from pinnace.plugins.protocol import velero_pb2 as wire
from pinnace.plugins.protocol import velero_v2_pb2 as v2
from pinnace.plugins.protocol.methods import Method, ResponseT
from pinnace.plugins.protocols import ResourceIdentifier, RestoreItemOutput


class LaterActionServices(AnyActionServices):
    """The kinds of actions that Velero 1.6 does not have."""

    def progress(
        self, kind: PluginKind, method: Method[Any, ResponseT]
    ) -> Callable[[Any], Awaitable[ResponseT]]:
        """The answer how far an operation of an action is."""
        respond: Callable[..., ResponseT] = method.response

        async def answer(request: Any) -> ResponseT:
            action = await self._instances.ready(kind, request.plugin)
            progress = await action.progress(request.operationID, self._run_of(kind, request))
            return respond(progress=progress_message(progress))

        return answer

    def cancel(self, kind: PluginKind) -> Callable[[Any], Awaitable[wire.Empty]]:
        """The answer to the wish to stop an operation of an action."""

        async def answer(request: Any) -> wire.Empty:
            action = await self._instances.ready(kind, request.plugin)
            await action.cancel(request.operationID, self._run_of(kind, request))
            return wire.Empty()

        return answer

    def _run_of(self, kind: PluginKind, request: Any) -> Backup | Restore:
        if kind is PluginKind.RESTORE_ITEM_ACTION_V2:
            return self._restore.of(request.restore)
        return self._backup.of(request.backup)

    async def backup_execute(self, request: v2.ExecuteRequest) -> v2.ExecuteResponse:
        kind, name = PluginKind.BACKUP_ITEM_ACTION_V2, request.plugin
        action: BackupItemActionV2 = await self._instances.ready(kind, name)
        item, backup = object_of(request.item, "item"), self._backup.of(request.backup)
        output: BackupItemOutput | None = await action.execute(item, backup)
        if output is None:
            return v2.ExecuteResponse(item=request.item)
        return v2.ExecuteResponse(
            item=orjson.dumps(checked_item(name, output.item)),
            additionalItems=identifier_messages(name, output.additional_items),
            operationID=output.operation_id,
            postOperationItems=identifier_messages(name, output.post_operation_items),
        )

    async def restore_execute(
        self, request: v2.RestoreItemActionExecuteRequest
    ) -> v2.RestoreItemActionExecuteResponse:
        kind, name = PluginKind.RESTORE_ITEM_ACTION_V2, request.plugin
        action: RestoreItemActionV2 = await self._instances.ready(kind, name)
        given = restore_input(request, self._restore)
        output: RestoreItemOutput | None = await action.execute(given)
        if output is None:
            return v2.RestoreItemActionExecuteResponse(item=request.item)
        answer = v2.RestoreItemActionExecuteResponse(
            item=orjson.dumps(checked_item(name, output.item)),
            additionalItems=identifier_messages(name, output.additional_items),
            skipRestore=output.skip,
            operationID=output.operation_id,
            waitForAdditionalItems=output.wait_for_additional_items,
        )
        if output.additional_items_ready_timeout is not None:
            timeout = Duration()
            timeout.FromTimedelta(output.additional_items_ready_timeout)
            answer.additionalItemsReadyTimeout.CopyFrom(timeout)
        return answer

    async def restore_ready(
        self, request: v2.RestoreItemActionItemsReadyRequest
    ) -> v2.RestoreItemActionItemsReadyResponse:
        kind = PluginKind.RESTORE_ITEM_ACTION_V2
        action: RestoreItemActionV2 = await self._instances.ready(kind, request.plugin)
        items = [
            ResourceIdentifier(group=one.group, resource=one.resource, namespace=one.namespace, name=one.name)
            for one in request.additionalItems
        ]
        ready = await action.are_additional_items_ready(items, self._restore.of(request.restore))
        return v2.RestoreItemActionItemsReadyResponse(ready=ready)

    async def block_related_items(
        self, request: blocks.ItemBlockActionGetRelatedItemsRequest
    ) -> blocks.ItemBlockActionGetRelatedItemsResponse:
        kind, name = PluginKind.ITEM_BLOCK_ACTION, request.plugin
        action: ItemBlockAction = await self._instances.ready(kind, name)
        item, backup = object_of(request.item, "item"), self._backup.of(request.backup)
        related: Any = await action.get_related_items(item, backup)
        return blocks.ItemBlockActionGetRelatedItemsResponse(relatedItems=identifier_messages(name, related))


def progress_message(progress: OperationProgress) -> v2.OperationProgress:
    """The progress of an operation, as a message."""
    message = v2.OperationProgress(
        completed=progress.completed,
        err=progress.error,
        nCompleted=progress.done,
        nTotal=progress.total,
        operationUnits=progress.units,
        description=progress.description,
    )
    if progress.started is not None:
        message.started.CopyFrom(_timestamp(progress.started))
    if progress.updated is not None:
        message.updated.CopyFrom(_timestamp(progress.updated))
    return message


def _timestamp(moment: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(moment)
    return message
