"""Item actions that leave traces of the backup, of the restore, and of each deleted item."""

import os
from collections.abc import Sequence
from pathlib import Path

from pinnace.api.objects import JSONObject
from pinnace.plugins import (
    Backup,
    PluginError,
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)

NAME = "example.io/whole"
FOLDER_VARIABLE = "PINNACE_TEST_PLUGIN_FOLDER"
DELETED_FILE = "deleted"
BACKED_UP = "example.io/backed-up-with"
RESTORED = "example.io/restored-by"
COMPANION = "example.io/companion"
"""An annotation that names a config map which has to be in the backup too."""

SKIPPED = "example.io/not-restored"
MAPS = ResourceSelector(included_resources=["configmaps"])


def notes_of(item: JSONObject) -> dict[str, str]:
    found: dict[str, str] = item["metadata"].setdefault("annotations", {})
    return found


def write_down(line: str) -> None:
    with Path(os.environ[FOLDER_VARIABLE], DELETED_FILE).open("a") as file:
        file.write(f"{line}\n")


class BackupAction:
    """Notes the backup, and adds the companion to it."""

    name = NAME

    async def applies_to(self) -> ResourceSelector:
        return MAPS

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        notes = notes_of(item)
        notes[BACKED_UP] = backup.metadata.name
        if COMPANION not in notes:
            return item, []
        namespace = item["metadata"]["namespace"]
        companion = ResourceIdentifier(
            group="", resource="configmaps", namespace=namespace, name=notes[COMPANION]
        )
        return item, [companion]


class RestoreAction:
    """Notes the restore, and skips items whose annotation says so."""

    name = NAME

    async def applies_to(self) -> ResourceSelector:
        return MAPS

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        notes_of(given.item)[RESTORED] = given.restore.metadata.name
        return RestoreItemOutput(item=given.item, skip=SKIPPED in notes_of(given.item))


class DeleteAction:
    """Records the items that it gets; fails one of them."""

    name = NAME

    async def applies_to(self) -> ResourceSelector:
        return MAPS

    async def execute(self, item: JSONObject, backup: Backup) -> None:
        metadata = item["metadata"]
        write_down(f"{backup.metadata.name} {metadata['namespace']}/{metadata['name']}")
        if SKIPPED in notes_of(item):
            raise PluginError("it was never restored")
