"""Item actions of another process, behind the protocols of this one. (docs/spec: PLG 6, 7.3)"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.asynchronous import BackupItemOutput, OperationProgress
from pinnace.plugins.calling import checked_item
from pinnace.plugins.errors import PluginCallError
from pinnace.plugins.host.supervisor import Supervisor
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.protocol import methods
from pinnace.plugins.protocol import velero_pb2 as wire
from pinnace.plugins.protocol import velero_v2_pb2 as v2
from pinnace.plugins.protocol.methods import Method, ResponseT
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)


class RemotePlugin:
    """A plugin of another process, of any kind."""

    kind: PluginKind

    def __init__(self, name: str, supervisor: Supervisor) -> None:
        self.name = name
        self._id = PluginId(self.kind, name)
        self._supervisor = supervisor

    async def _question(self, method: Method[Any, ResponseT], **fields: Any) -> ResponseT:
        """Call a method that should answer at once; `fields` are those of its request."""
        request = method.request(plugin=self.name, **fields)
        return await self._supervisor.question(self._id, method, request)

    async def _work(
        self, method: Method[Any, ResponseT], *, leaves_behind: str = "", **fields: Any
    ) -> ResponseT:
        """Call a method that may take long. `leaves_behind` as in `Supervisor.work`."""
        request = method.request(plugin=self.name, **fields)
        return await self._supervisor.work(self._id, method, request, leaves_behind=leaves_behind)


class _RemoteAction(RemotePlugin):
    asking: Method[Any, Any]
    """The method that asks for the items that the action applies to."""

    def __init__(self, name: str, supervisor: Supervisor) -> None:
        super().__init__(name, supervisor)
        self._about: Backup | Restore | None = None
        self._about_data = b""

    def _data_of(self, about: Backup | Restore) -> bytes:
        """The JSON of the Backup or Restore of an item, encoded once, as it is sent with every item."""
        if about is not self._about:
            self._about, self._about_data = about, orjson.dumps(encode(about))
        return self._about_data

    async def applies_to(self) -> ResourceSelector:
        """Ask for the items that it applies to."""
        return selector_of((await self._question(self.asking)).ResourceSelector)


class _RemoteActionV2(_RemoteAction):
    asking_progress: Method[Any, Any]
    cancelling: Method[Any, Any]
    about: str
    """The field of requests that has the Backup or the Restore."""

    async def progress(self, operation_id: str, about: Backup | Restore) -> OperationProgress:
        """How far an operation is."""
        run = {self.about: self._data_of(about)}
        answer = await self._question(self.asking_progress, operationID=operation_id, **run)
        return progress_of(answer.progress)

    async def cancel(self, operation_id: str, about: Backup | Restore) -> None:
        """Stop an operation."""
        run = {self.about: self._data_of(about)}
        await self._question(self.cancelling, operationID=operation_id, **run)


class RemoteBackupItemAction(_RemoteAction):
    """A BackupItemAction of another process. Raises PluginError."""

    kind = PluginKind.BACKUP_ITEM_ACTION
    asking = methods.BACKUP_APPLIES_TO

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        """Run it."""
        data = orjson.dumps(item)
        answer = await self._work(methods.BACKUP_EXECUTE, item=data, backup=self._data_of(backup))
        return _changed(self.name, item, data, answer.item), identifiers_of(answer.additionalItems)


class RemoteRestoreItemAction(_RemoteAction):
    """A RestoreItemAction of another process. Raises PluginError."""

    kind = PluginKind.RESTORE_ITEM_ACTION
    asking = methods.RESTORE_APPLIES_TO

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Run it."""
        data = orjson.dumps(given.item)
        answer = await self._work(
            methods.RESTORE_EXECUTE,
            item=data,
            restore=self._data_of(given.restore),
            itemFromBackup=orjson.dumps(given.item_from_backup),
        )
        return RestoreItemOutput(
            item=_changed(self.name, given.item, data, answer.item),
            additional_items=identifiers_of(answer.additionalItems),
            skip=answer.skipRestore,
        )


class RemoteDeleteItemAction(_RemoteAction):
    """A DeleteItemAction of another process. Raises PluginError."""

    kind = PluginKind.DELETE_ITEM_ACTION
    asking = methods.DELETE_APPLIES_TO

    async def execute(self, item: JSONObject, backup: Backup) -> None:
        """Run it."""
        await self._work(methods.DELETE_EXECUTE, item=orjson.dumps(item), backup=self._data_of(backup))


class RemoteBackupItemActionV2(_RemoteActionV2):
    """A BackupItemActionV2 of another process. Raises PluginError."""

    kind = PluginKind.BACKUP_ITEM_ACTION_V2
    asking = methods.BACKUP_V2_APPLIES_TO
    asking_progress = methods.BACKUP_V2_PROGRESS
    cancelling = methods.BACKUP_V2_CANCEL
    about = "backup"

    async def execute(self, item: JSONObject, backup: Backup) -> BackupItemOutput:
        """Run it."""
        data = orjson.dumps(item)
        answer = await self._work(methods.BACKUP_V2_EXECUTE, item=data, backup=self._data_of(backup))
        return BackupItemOutput(
            item=_changed(self.name, item, data, answer.item),
            additional_items=identifiers_of(answer.additionalItems),
            operation_id=answer.operationID,
            post_operation_items=identifiers_of(answer.postOperationItems),
        )


class RemoteRestoreItemActionV2(_RemoteActionV2):
    """A RestoreItemActionV2 of another process. Raises PluginError."""

    kind = PluginKind.RESTORE_ITEM_ACTION_V2
    asking = methods.RESTORE_V2_APPLIES_TO
    asking_progress = methods.RESTORE_V2_PROGRESS
    cancelling = methods.RESTORE_V2_CANCEL
    about = "restore"

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Run it."""
        data = orjson.dumps(given.item)
        answer = await self._work(
            methods.RESTORE_V2_EXECUTE,
            item=data,
            restore=self._data_of(given.restore),
            itemFromBackup=orjson.dumps(given.item_from_backup),
        )
        has_timeout = answer.HasField("additionalItemsReadyTimeout")
        return RestoreItemOutput(
            item=_changed(self.name, given.item, data, answer.item),
            additional_items=identifiers_of(answer.additionalItems),
            skip=answer.skipRestore,
            operation_id=answer.operationID,
            wait_for_additional_items=answer.waitForAdditionalItems,
            additional_items_ready_timeout=(
                _timeout_of(answer.additionalItemsReadyTimeout) if has_timeout else None
            ),
        )

    async def are_additional_items_ready(self, items: Sequence[ResourceIdentifier], restore: Restore) -> bool:
        """Whether the item may be created now."""
        answer = await self._question(
            methods.RESTORE_V2_READY, restore=self._data_of(restore), additionalItems=messages_of(items)
        )
        return answer.ready


class RemoteItemBlockAction(_RemoteAction):
    """An ItemBlockAction of another process. Raises PluginError."""

    kind = PluginKind.ITEM_BLOCK_ACTION
    asking = methods.BLOCK_APPLIES_TO

    async def get_related_items(self, item: JSONObject, backup: Backup) -> Sequence[ResourceIdentifier]:
        """The items that belong to an item."""
        answer = await self._work(
            methods.BLOCK_RELATED_ITEMS, item=orjson.dumps(item), backup=self._data_of(backup)
        )
        return identifiers_of(answer.relatedItems)


def progress_of(message: v2.OperationProgress) -> OperationProgress:
    """The progress in a message."""
    return OperationProgress(
        completed=message.completed,
        error=message.err,
        done=message.nCompleted,
        total=message.nTotal,
        units=message.operationUnits,
        description=message.description,
        started=_time_of(message.started) if message.HasField("started") else None,
        updated=_time_of(message.updated) if message.HasField("updated") else None,
    )


def _time_of(message: Timestamp) -> datetime | None:
    """The time in a message; None for one outside the calendar, and for Go's zero time."""
    try:
        found = datetime.fromtimestamp(message.seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return found if found.year > 1 else None


def _timeout_of(message: Duration) -> timedelta | None:
    """The duration in a message; None for one that no timer could wait for."""
    try:
        return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        return None


def selector_of(message: wire.ResourceSelector) -> ResourceSelector:
    """The selector in a message; an unset one means everything."""
    return ResourceSelector(
        included_namespaces=tuple(message.includedNamespaces),
        excluded_namespaces=tuple(message.excludedNamespaces),
        included_resources=tuple(message.includedResources),
        excluded_resources=tuple(message.excludedResources),
        label_selector=message.selector,
    )


def _changed(plugin: str, item: JSONObject, sent: bytes, answered: bytes) -> JSONObject:
    """The object that a plugin answered, or the one it was sent if that is the same. Raises PluginError."""
    return checked_item(plugin, item) if answered == sent else item_of(plugin, answered)


def item_of(plugin: str, data: bytes) -> JSONObject:
    """The object that a plugin answered. Raises PluginCallError."""
    try:
        item = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise PluginCallError(plugin, "returned an item that is no JSON") from error
    return checked_item(plugin, item)


def messages_of(identifiers: Iterable[ResourceIdentifier]) -> Sequence[wire.ResourceIdentifier]:
    """Identifiers as messages."""
    return [
        wire.ResourceIdentifier(
            group=one.group, resource=one.resource, namespace=one.namespace, name=one.name
        )
        for one in identifiers
    ]


def identifiers_of(messages: Iterable[wire.ResourceIdentifier]) -> Sequence[ResourceIdentifier]:
    """The additional items that a plugin named."""
    return [
        ResourceIdentifier(group=one.group, resource=one.resource, namespace=one.namespace, name=one.name)
        for one in messages
    ]
