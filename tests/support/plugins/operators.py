"""Actions of version 2 for tests: their operations end when the test says so."""

from collections.abc import Callable, Sequence
from typing import Any

from pinnace.api.objects import JSONObject
from pinnace.plugins import (
    Backup,
    BackupItemOutput,
    OperationProgress,
    ResourceIdentifier,
    ResourceSelector,
    Restore,
    RestoreItemInput,
    RestoreItemOutput,
)
from pinnace.plugins.host.options import LaunchOptions
from pinnace.plugins.installed import InstalledPlugins
from pinnace.plugins.kinds import PluginId, PluginKind

NAME = "example.io/copy"


class Operations:
    """The operations of a test's actions; outlives the instances of the actions.

    Attributes:
        progress: of each operation; by default under way.
        error: raised when progress is asked for.
    """

    def __init__(self) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.asked: list[str] = []
        self.progress: dict[str, OperationProgress] = {}
        self.error: Exception | None = None
        self.ready: Callable[[Sequence[ResourceIdentifier]], bool] = lambda items: True

    def end(self, operation: str, error: str = "") -> None:
        """Let an operation end."""
        self.progress[operation] = OperationProgress(completed=True, error=error, done=1, total=1)

    def ask(self, operation: str) -> OperationProgress:
        self.asked.append(operation)
        if self.error is not None:
            raise self.error
        return self.progress.get(operation, OperationProgress(total=1))

    def start(self, operation: str) -> str:
        self.started.append(operation)
        return operation

    def plugins(self, *, post_items: Sequence[ResourceIdentifier] = (), resource: str = "configmaps",
                waits: bool = False) -> InstalledPlugins:  # fmt: skip
        """A Python plugin with an action for backups and one for restores."""

        def backup() -> CopyOnBackup:
            return CopyOnBackup(self, resource, post_items)

        def restore() -> CopyOnRestore:
            return CopyOnRestore(self, resource, waits=waits)

        found: dict[PluginId, Callable[[], Any]] = {
            PluginId(PluginKind.BACKUP_ITEM_ACTION_V2, NAME): backup,
            PluginId(PluginKind.RESTORE_ITEM_ACTION_V2, NAME): restore,
        }
        return InstalledPlugins(found, (), LaunchOptions(environ={}))


class CopyOnBackup:
    """Starts an operation for each object the first time that it sees it."""

    name = NAME

    def __init__(
        self, operations: Operations, resource: str, post_items: Sequence[ResourceIdentifier]
    ) -> None:
        self._operations = operations
        self._resource = resource
        self._post_items = post_items

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=[self._resource])

    async def execute(self, item: JSONObject, backup: Backup) -> BackupItemOutput:
        operation = f"op-{item['metadata']['name']}"
        if operation in self._operations.started:
            return BackupItemOutput(item=item)
        return BackupItemOutput(
            item=item, operation_id=self._operations.start(operation), post_operation_items=self._post_items
        )

    async def progress(self, operation_id: str, backup: Backup) -> OperationProgress:
        return self._operations.ask(operation_id)

    async def cancel(self, operation_id: str, backup: Backup) -> None:
        self._operations.cancelled.append(operation_id)


class CopyOnRestore:
    """Starts an operation for each object that it restores."""

    name = NAME

    def __init__(self, operations: Operations, resource: str, *, waits: bool) -> None:
        self._operations = operations
        self._resource = resource
        self._waits = waits

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=[self._resource])

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        operation = self._operations.start(f"op-{given.item['metadata']['name']}")
        return RestoreItemOutput(
            item=given.item, operation_id=operation, wait_for_additional_items=self._waits
        )

    async def progress(self, operation_id: str, restore: Restore) -> OperationProgress:
        return self._operations.ask(operation_id)

    async def cancel(self, operation_id: str, restore: Restore) -> None:
        self._operations.cancelled.append(operation_id)

    async def are_additional_items_ready(self, items: Sequence[ResourceIdentifier], restore: Restore) -> bool:
        return self._operations.ready(items)
