"""Item actions of another process, behind the protocols of this one. (docs/spec: PLG 6, 7.3)"""

from collections.abc import Iterable, Sequence

import orjson

from pinnace.api.backup import Backup
from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject
from pinnace.api.restore import Restore
from pinnace.plugins.calling import checked_item
from pinnace.plugins.errors import PluginCallError
from pinnace.plugins.host.supervisor import Supervisor
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.protocol import methods
from pinnace.plugins.protocol import velero_pb2 as wire
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)


class _RemoteAction:
    kind: PluginKind

    def __init__(self, name: str, supervisor: Supervisor) -> None:
        self.name = name
        self._id = PluginId(self.kind, name)
        self._supervisor = supervisor
        self._about: Backup | Restore | None = None
        self._about_data = b""

    def _data_of(self, about: Backup | Restore) -> bytes:
        """The JSON of what an item belongs to, made once, as it goes along with every item."""
        if about is not self._about:
            self._about, self._about_data = about, orjson.dumps(encode(about))
        return self._about_data


class RemoteBackupItemAction(_RemoteAction):
    """A BackupItemAction of another process. Raises PluginError."""

    kind = PluginKind.BACKUP_ITEM_ACTION

    async def applies_to(self) -> ResourceSelector:
        """Ask what it wants to see."""
        request = wire.BackupItemActionAppliesToRequest(plugin=self.name)
        answer = await self._supervisor.question(self._id, methods.BACKUP_APPLIES_TO, request)
        return selector_of(answer.ResourceSelector)

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        """Run it."""
        data = orjson.dumps(item)
        request = wire.ExecuteRequest(plugin=self.name, item=data, backup=self._data_of(backup))
        answer = await self._supervisor.work(self._id, methods.BACKUP_EXECUTE, request)
        return _changed(self.name, item, data, answer.item), identifiers_of(answer.additionalItems)


class RemoteRestoreItemAction(_RemoteAction):
    """A RestoreItemAction of another process. Raises PluginError."""

    kind = PluginKind.RESTORE_ITEM_ACTION

    async def applies_to(self) -> ResourceSelector:
        """Ask what it wants to see."""
        request = wire.RestoreItemActionAppliesToRequest(plugin=self.name)
        answer = await self._supervisor.question(self._id, methods.RESTORE_APPLIES_TO, request)
        return selector_of(answer.ResourceSelector)

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Run it."""
        data = orjson.dumps(given.item)
        request = wire.RestoreItemActionExecuteRequest(
            plugin=self.name,
            item=data,
            restore=self._data_of(given.restore),
            itemFromBackup=orjson.dumps(given.item_from_backup),
        )
        answer = await self._supervisor.work(self._id, methods.RESTORE_EXECUTE, request)
        return RestoreItemOutput(
            item=_changed(self.name, given.item, data, answer.item),
            additional_items=identifiers_of(answer.additionalItems),
            skip=answer.skipRestore,
        )


class RemoteDeleteItemAction(_RemoteAction):
    """A DeleteItemAction of another process. Raises PluginError."""

    kind = PluginKind.DELETE_ITEM_ACTION

    async def applies_to(self) -> ResourceSelector:
        """Ask what it wants to see."""
        request = wire.DeleteItemActionAppliesToRequest(plugin=self.name)
        answer = await self._supervisor.question(self._id, methods.DELETE_APPLIES_TO, request)
        return selector_of(answer.ResourceSelector)

    async def execute(self, item: JSONObject, backup: Backup) -> None:
        """Run it."""
        request = wire.DeleteItemActionExecuteRequest(
            plugin=self.name, item=orjson.dumps(item), backup=self._data_of(backup)
        )
        await self._supervisor.work(self._id, methods.DELETE_EXECUTE, request)


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


def identifiers_of(messages: Iterable[wire.ResourceIdentifier]) -> Sequence[ResourceIdentifier]:
    """The additional items that a plugin named."""
    return [
        ResourceIdentifier(group=one.group, resource=one.resource, namespace=one.namespace, name=one.name)
        for one in messages
    ]
