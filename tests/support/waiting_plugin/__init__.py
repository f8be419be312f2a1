"""A plugin whose operations for config maps end when a file says so: one of a backup, one of a restore."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from pinnace.api import phases
from pinnace.api.objects import JSONObject
from pinnace.plugins import (
    Backup,
    BackupItemOutput,
    OperationProgress,
    Plugins,
    ResourceIdentifier,
    ResourceSelector,
    Restore,
    RestoreItemInput,
    RestoreItemOutput,
)

FOLDER_VARIABLE = "PINNACE_TEST_PLUGIN_FOLDER"
ENDED_FILE = "operations-may-end"
CANCELLED_FILE = "operation-cancelled"
"""Has the id of the operation of a backup that was cancelled."""
READ_AGAIN = "example.io/read-again"
"""The annotation of a config map whose operation is waited for, and which is then read again."""

MAPS = ResourceSelector(included_resources=["configmaps"])


def _progress() -> OperationProgress:
    return OperationProgress(completed=Path(os.environ[FOLDER_VARIABLE], ENDED_FILE).exists())


def _is_chosen(item: JSONObject) -> bool:
    return READ_AGAIN in (item["metadata"].get("annotations") or {})


class BackupAction:
    name = "example.io/waiting-backup"

    async def applies_to(self) -> ResourceSelector:
        return MAPS

    async def execute(self, item: JSONObject, backup: Backup) -> BackupItemOutput:
        if not _is_chosen(item) or backup.status.phase in phases.FINALIZING:
            return BackupItemOutput(item=item)
        metadata = item["metadata"]
        again = ResourceIdentifier(
            group="", resource="configmaps", namespace=metadata["namespace"], name=metadata["name"]
        )
        return BackupItemOutput(
            item=item, operation_id=f"op-{metadata['name']}", post_operation_items=[again]
        )

    async def progress(self, operation_id: str, backup: Backup) -> OperationProgress:
        return _progress()

    async def cancel(self, operation_id: str, backup: Backup) -> None:
        """Write down that it was asked: there is nothing that runs."""
        await asyncio.to_thread(Path(os.environ[FOLDER_VARIABLE], CANCELLED_FILE).write_text, operation_id)


class RestoreAction:
    name = "example.io/waiting-restore"

    async def applies_to(self) -> ResourceSelector:
        return MAPS

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        operation_id = f"op-{given.item['metadata']['name']}" if _is_chosen(given.item) else ""
        return RestoreItemOutput(item=given.item, operation_id=operation_id)

    async def progress(self, operation_id: str, restore: Restore) -> OperationProgress:
        return _progress()

    async def cancel(self, operation_id: str, restore: Restore) -> None:
        """Do nothing: there is nothing that runs."""

    async def are_additional_items_ready(self, items: Sequence[ResourceIdentifier], restore: Restore) -> bool:
        return True


plugins = Plugins(backup_item_actions_v2=[BackupAction], restore_item_actions_v2=[RestoreAction])
