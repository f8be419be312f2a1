"""Python plugins that run in this process, behind the same protocols that they implement themselves.

What they raise, return or wait for too long becomes one error with the plugin's name. (docs/spec: PLG 7)
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.asynchronous import (
    BackupItemActionV2,
    BackupItemOutput,
    ItemBlockAction,
    OperationProgress,
    RestoreItemActionV2,
)
from pinnace.plugins.calling import (
    DEFAULT_DEADLINES,
    Deadlines,
    GuardedCaller,
    MeteredBody,
    checked_identifiers,
    checked_item,
)
from pinnace.plugins.errors import PluginCallError, SettingsUnreadable
from pinnace.plugins.logs import LogSink
from pinnace.plugins.protocols import (
    BackupItemAction,
    Configurable,
    DeleteItemAction,
    ObjectStorePlugin,
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemAction,
    RestoreItemInput,
    RestoreItemOutput,
    VolumeInfo,
    VolumeSnapshotter,
)

ReadConfig = Callable[[], Awaitable[Mapping[str, str]]]
"""Reads the settings of an action from its ConfigMap; empty without one."""


class _Action(Protocol):
    @property
    def name(self) -> str: ...

    async def applies_to(self) -> ResourceSelector: ...


ActionT = TypeVar("ActionT", bound=_Action)
RestoreActionT = TypeVar("RestoreActionT", RestoreItemAction, RestoreItemActionV2)
_RunT = TypeVar("_RunT", Backup, Restore)


class _LocalAction(Generic[ActionT]):
    """The common part of all kinds of actions."""

    _settings_first = False
    """Whether settings that cannot be read keep the action from being asked anything."""

    def __init__(
        self,
        action: ActionT,
        sink: LogSink,
        *,
        read_config: ReadConfig | None = None,
        deadlines: Deadlines = DEFAULT_DEADLINES,
    ) -> None:
        """Args:
        read_config: where a Configurable action gets its settings; without it they are empty.
        """
        self.name: str = action.name
        self._action: ActionT = action
        self._read_config = read_config
        self._caller = GuardedCaller(action.name, sink, deadlines)
        self._is_configured = False
        self._unreadable: SettingsUnreadable | None = None

    async def applies_to(self) -> ResourceSelector:
        """Configure the action, then ask what it wants to see.

        Settings that cannot be read are an error of each item that the action wants, not of the run.

        Raises PluginError.
        """
        try:
            await self._configure()
        except SettingsUnreadable as error:
            if self._settings_first:
                raise
            self._unreadable = error
        try:
            wanted = await self._caller.question(self._action.applies_to)
        except PluginCallError:
            if self._unreadable is not None:  # it may need the settings that could not be read
                raise self._unreadable from None
            raise
        return self._caller.checked(wanted, ResourceSelector, "what it applies to")

    async def _ready(self) -> None:
        """Configure the action if it was not. Raises PluginError."""
        if self._unreadable is not None:
            raise PluginCallError(self.name, str(self._unreadable)) from self._unreadable
        await self._configure()

    async def _configure(self) -> None:
        """Give the action its settings, once; an operation may be asked for before anything else."""
        if self._is_configured:
            return
        action: object = self._action  # the type checker does not know that it may be Configurable too
        if isinstance(action, Configurable):
            config = await self._read_config() if self._read_config is not None else {}
            await self._caller.question(action.configure, config)
        self._is_configured = True

    async def _progress(
        self, ask: Callable[[str, _RunT], Awaitable[OperationProgress]], operation_id: str, run: _RunT
    ) -> OperationProgress:
        await self._ready()
        answer = await self._caller.question(ask, operation_id, run)
        return self._caller.checked(answer, OperationProgress, "the progress of an operation")

    async def _cancel(
        self, stop: Callable[[str, _RunT], Awaitable[None]], operation_id: str, run: _RunT
    ) -> None:
        await self._ready()
        await self._caller.question(stop, operation_id, run)


class LocalBackupItemAction(_LocalAction[BackupItemAction]):
    """A BackupItemAction of this process."""

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        """Run it. Raises PluginCallError."""
        await self._ready()
        answer: object = await self._caller.work(self._action.execute, item, backup)
        if answer is None:
            # A forgotten `return` means what it means to Velero's own framework. (docs/spec: PLG 7.3)
            return item, []
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise PluginCallError(self.name, "did not return an item and a list of additional items")
        return checked_item(self.name, answer[0]), checked_identifiers(self.name, answer[1])


class _LocalRestoreAction(_LocalAction[RestoreActionT]):
    """The common part of both versions of restore item actions."""

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Run it. Raises PluginCallError."""
        await self._ready()
        answer: object = await self._caller.work(self._action.execute, given)
        if answer is None:
            return RestoreItemOutput(item=given.item)
        output = self._caller.checked(answer, RestoreItemOutput, "a restored item")
        checked_item(self.name, output.item)
        checked_identifiers(self.name, output.additional_items)
        return output


class LocalRestoreItemAction(_LocalRestoreAction[RestoreItemAction]):
    """A RestoreItemAction of this process."""


class LocalBackupItemActionV2(_LocalAction[BackupItemActionV2]):
    """A BackupItemActionV2 of this process."""

    async def execute(self, item: JSONObject, backup: Backup) -> BackupItemOutput:
        """Run it. Raises PluginCallError."""
        await self._ready()
        answer: object = await self._caller.work(self._action.execute, item, backup)
        if answer is None:
            return BackupItemOutput(item=item)
        output = self._caller.checked(answer, BackupItemOutput, "a backed-up item")
        checked_item(self.name, output.item)
        checked_identifiers(self.name, output.additional_items)
        checked_identifiers(self.name, output.post_operation_items)
        return output

    async def progress(self, operation_id: str, backup: Backup) -> OperationProgress:
        """How far an operation is. Raises PluginCallError."""
        return await self._progress(self._action.progress, operation_id, backup)

    async def cancel(self, operation_id: str, backup: Backup) -> None:
        """Stop an operation. Raises PluginCallError."""
        await self._cancel(self._action.cancel, operation_id, backup)


class LocalRestoreItemActionV2(_LocalRestoreAction[RestoreItemActionV2]):
    """A RestoreItemActionV2 of this process."""

    async def progress(self, operation_id: str, restore: Restore) -> OperationProgress:
        """How far an operation is. Raises PluginCallError."""
        return await self._progress(self._action.progress, operation_id, restore)

    async def cancel(self, operation_id: str, restore: Restore) -> None:
        """Stop an operation. Raises PluginCallError."""
        await self._cancel(self._action.cancel, operation_id, restore)

    async def are_additional_items_ready(self, items: Sequence[ResourceIdentifier], restore: Restore) -> bool:
        """Whether the item may be created now. Raises PluginCallError."""
        ready = await self._caller.question(self._action.are_additional_items_ready, items, restore)
        return self._caller.checked(ready, bool, "whether additional items are ready")


class LocalItemBlockAction(_LocalAction[ItemBlockAction]):
    """An ItemBlockAction of this process."""

    async def get_related_items(self, item: JSONObject, backup: Backup) -> Sequence[ResourceIdentifier]:
        """The items that belong to an item. Raises PluginCallError."""
        await self._ready()
        related = await self._caller.work(self._action.get_related_items, item, backup)
        return checked_identifiers(self.name, related)


class LocalDeleteItemAction(_LocalAction[DeleteItemAction]):
    """A DeleteItemAction of this process."""

    _settings_first = True  # a deletion waits: what the action cleans up is lost with the backup

    async def execute(self, item: JSONObject, backup: Backup) -> None:
        """Run it. Raises PluginCallError."""
        await self._ready()
        await self._caller.work(self._action.execute, item, backup)


class LocalObjectStore:
    """An ObjectStorePlugin of this process. All methods raise PluginCallError."""

    def __init__(
        self, store: ObjectStorePlugin, sink: LogSink, *, deadlines: Deadlines = DEFAULT_DEADLINES
    ) -> None:
        self.name = store.name
        self._store = store
        self._deadlines = deadlines
        self._caller = GuardedCaller(store.name, sink, deadlines)

    async def init(self, config: Mapping[str, str]) -> None:
        """Configure it."""
        await self._caller.question(self._store.init, config)

    async def put_object(self, bucket: str, key: str, body: AsyncIterator[bytes]) -> None:
        """Store an object; what the body raises comes through unchanged."""
        source = MeteredBody(body, self._deadlines.block)
        try:
            await self._caller.transfer(source, self._store.put_object, bucket, key, source.blocks())
        except PluginCallError:
            if source.error is not None:
                raise source.error from None
            raise

    async def object_exists(self, bucket: str, key: str) -> bool:
        """Whether there is such an object."""
        exists = await self._caller.question(self._store.object_exists, bucket, key)
        return self._caller.checked(exists, bool, "whether the object exists")

    async def get_object(self, bucket: str, key: str) -> AsyncGenerator[bytes, None]:
        """The bytes of an object."""
        async with aclosing(self._caller.blocks(lambda: self._store.get_object(bucket, key))) as stream:
            async for block in stream:
                yield block

    async def list_common_prefixes(self, bucket: str, prefix: str, delimiter: str) -> Sequence[str]:
        """The prefixes up to the next delimiter."""
        return await self._caller.work(self._store.list_common_prefixes, bucket, prefix, delimiter)

    async def list_objects(self, bucket: str, prefix: str) -> Sequence[str]:
        """The keys with the prefix."""
        return await self._caller.work(self._store.list_objects, bucket, prefix)

    async def delete_object(self, bucket: str, key: str) -> None:
        """Delete an object."""
        await self._caller.question(self._store.delete_object, bucket, key)

    async def create_signed_url(self, bucket: str, key: str, ttl: timedelta) -> str:
        """A URL to read an object with."""
        url = await self._caller.question(self._store.create_signed_url, bucket, key, ttl)
        return self._caller.checked(url, str, "a signed URL")


class LocalVolumeSnapshotter:
    """A VolumeSnapshotter of this process. All methods raise PluginCallError."""

    def __init__(
        self, snapshotter: VolumeSnapshotter, sink: LogSink, *, deadlines: Deadlines = DEFAULT_DEADLINES
    ) -> None:
        self.name = snapshotter.name
        self._snapshotter = snapshotter
        self._caller = GuardedCaller(snapshotter.name, sink, deadlines)

    async def init(self, config: Mapping[str, str]) -> None:
        """Configure it."""
        await self._caller.question(self._snapshotter.init, config)

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        """Make a volume."""
        create = self._snapshotter.create_volume_from_snapshot
        found = await self._caller.work(create, snapshot_id, volume_type, volume_az, iops)
        return self._caller.checked(found, str, "the id of a volume")

    async def get_volume_info(self, volume_id: str, volume_az: str) -> VolumeInfo:
        """Type and speed of a volume."""
        found = await self._caller.work(self._snapshotter.get_volume_info, volume_id, volume_az)
        return self._caller.checked(found, VolumeInfo, "the properties of a volume")

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        """Take a snapshot."""
        found = await self._caller.work(self._snapshotter.create_snapshot, volume_id, volume_az, tags)
        return self._caller.checked(found, str, "the id of a snapshot")

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot."""
        await self._caller.work(self._snapshotter.delete_snapshot, snapshot_id)

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        """The id of a volume at the provider."""
        found = await self._caller.work(self._snapshotter.get_volume_id, persistent_volume)
        return self._caller.checked(found, str, "the id of a volume")

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        """The persistent volume with another id."""
        changed = await self._caller.work(self._snapshotter.set_volume_id, persistent_volume, volume_id)
        return checked_item(self.name, changed)
