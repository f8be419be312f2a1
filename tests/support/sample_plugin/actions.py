"""Item actions of the sample plugin."""

import asyncio
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
    get_logger,
)

log = get_logger(__name__)

WISH = "example.io/do"
SELECTOR = ResourceSelector(
    included_namespaces=["shop"],
    excluded_namespaces=["kube-system"],
    included_resources=["pods"],
    excluded_resources=["nodes"],
    label_selector="app=web",
)
ADDITIONAL = [ResourceIdentifier(group="group", resource="pods", namespace="myns", name="mypod")]


def wish_of(item: JSONObject) -> str:
    wish: str = item["metadata"].get("annotations", {}).get(WISH, "")
    return wish


def is_first(marker: str) -> bool:
    """Whether the file `marker` was not there; it is from now on."""
    if Path(marker).exists():
        return False
    Path(marker).touch()
    return True


def crash_once(marker: str) -> None:
    """End the process, unless it was done before, which the file `marker` shows."""
    if is_first(marker):
        os._exit(3)


async def misbehave(item: JSONObject) -> None:
    """Do what the item's annotation says, except changes of the item."""
    match wish_of(item).split():
        case ["crash", "once", marker]:
            crash_once(marker)
        case ["hang", "once", marker]:
            if is_first(marker):
                await asyncio.Event().wait()
    match wish_of(item):
        case "fail":
            raise PluginError("it broke")
        case "panic":
            raise SystemExit("at the disco")
        case "crash":
            os._exit(3)
        case "hang":
            await asyncio.Event().wait()
        case "print":
            print("noise" * 20_000, flush=True)
        case "log":
            log.warning("a warning", extra={"count": 2})
            try:
                raise ValueError("the cause")
            except ValueError:
                log.exception("an error")


def labelled(item: JSONObject, key: str, value: str) -> JSONObject:
    item["metadata"].setdefault("labels", {})[key] = value
    return item


class BackupAction:
    name = "example.io/backup"

    async def applies_to(self) -> ResourceSelector:
        return SELECTOR

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        await misbehave(item)
        match wish_of(item):
            case "change":
                return labelled(item, "backup", backup.metadata.name), ADDITIONAL
            case "nothing":
                return None  # type: ignore[return-value]
            case "empty":
                return {}, []
        return item, []


class RestoreAction:
    name = "example.io/restore"

    async def applies_to(self) -> ResourceSelector:
        return SELECTOR

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        await misbehave(given.item)
        match wish_of(given.item):
            case "change":
                value = f"{given.restore.metadata.name}-{given.item_from_backup['metadata']['name']}"
                changed = labelled(given.item, "restore", value)
                return RestoreItemOutput(item=changed, additional_items=ADDITIONAL)
            case "skip":
                return RestoreItemOutput(item=given.item, skip=True)
        return RestoreItemOutput(item=given.item)


class DeleteAction:
    name = "example.io/delete"

    async def applies_to(self) -> ResourceSelector:
        return SELECTOR

    async def execute(self, item: JSONObject, backup: Backup) -> None:
        log.info("deleted with backup %s", backup.metadata.name)
        await misbehave(item)
