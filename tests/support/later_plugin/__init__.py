"""A plugin of the kinds of Velero 1.11 and later; the same as the compiled one in hack/tools/later_plugin."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pinnace.api.objects import JSONObject
from pinnace.plugins import (
    Backup,
    BackupItemOutput,
    OperationProgress,
    PluginError,
    Plugins,
    ResourceIdentifier,
    ResourceSelector,
    Restore,
    RestoreItemInput,
    RestoreItemOutput,
)

SELECTOR = ResourceSelector(included_resources=["pods"], label_selector="app=web")
STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def pod(name: str) -> ResourceIdentifier:
    return ResourceIdentifier(group="group", resource="pods", namespace="myns", name=name)


def progress_of(operation: str) -> OperationProgress:
    match operation:
        case "unknown":
            raise PluginError("no such operation")
        case "failed":
            return OperationProgress(completed=True, error="it broke")
        case "done":
            return OperationProgress(completed=True, done=3, total=3)
    return OperationProgress(
        done=1, total=3, units="Bytes", description="copying", started=STARTED, updated=STARTED
    )


class _Action:
    async def applies_to(self) -> ResourceSelector:
        return SELECTOR


class BackupAction(_Action):
    name = "example.io/later-backup"

    async def execute(self, item: JSONObject, backup: Backup) -> BackupItemOutput:
        return BackupItemOutput(
            item=item,
            additional_items=[pod("additional")],
            operation_id=f"op-{backup.metadata.name}",
            post_operation_items=[pod("after")],
        )

    async def progress(self, operation_id: str, backup: Backup) -> OperationProgress:
        return progress_of(operation_id)

    async def cancel(self, operation_id: str, backup: Backup) -> None:
        if operation_id == "unknown":
            raise PluginError("no such operation")


class RestoreAction(_Action):
    name = "example.io/later-restore"

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        return RestoreItemOutput(
            item=given.item,
            additional_items=[pod("additional")],
            operation_id=f"op-{given.restore.metadata.name}",
            wait_for_additional_items=True,
            additional_items_ready_timeout=timedelta(seconds=90),
        )

    async def progress(self, operation_id: str, restore: Restore) -> OperationProgress:
        return progress_of(operation_id)

    async def cancel(self, operation_id: str, restore: Restore) -> None:
        if operation_id == "unknown":
            raise PluginError("no such operation")

    async def are_additional_items_ready(self, items: Sequence[ResourceIdentifier], restore: Restore) -> bool:
        return [item.name for item in items] == ["additional"]


class BlockAction(_Action):
    name = "example.io/block"

    async def get_related_items(self, item: JSONObject, backup: Backup) -> Sequence[ResourceIdentifier]:
        return [pod(f"related-{backup.metadata.name}")]


plugins = Plugins(
    backup_item_actions_v2=[BackupAction],
    restore_item_actions_v2=[RestoreAction],
    item_block_actions=[BlockAction],
)
