"""For the tests of plugins: run one on a sample object as a backup, a restore or a deletion would.

    def test_owner_is_added() -> None:
        outcome = run_backup_action(AddOwner(), POD, config={"owner": "me"})

        assert outcome.item["metadata"]["labels"]["owner"] == "me"

The functions are not asynchronous, so that they need no support of a test framework. They do what engines do:
settings first, copies of JSON in and out, and whatever a plugin raises or returns wrongly is a PluginError.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson

from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.selectors import Selector
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.errors import PluginError, describe
from pinnace.plugins.protocols import (
    BackupItemAction,
    DeleteItemAction,
    ObjectStorePlugin,
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemAction,
    RestoreItemInput,
)
from pinnace.plugins.python.in_process import (
    LocalBackupItemAction,
    LocalDeleteItemAction,
    LocalObjectStore,
    LocalRestoreItemAction,
    ReadConfig,
)

ResultT = TypeVar("ResultT")

_BUCKET = "bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedLine:
    """A line that the plugin logged through `get_logger`."""

    level: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOutcome:
    """The result of an action.

    Attributes:
        selector: the items that it applies to.
        given: the object as it was.
        item: the object as the action left it.
        additional_items: the items that it named.
        skip: whether a restore is to leave the item out.
        log: the lines that it logged.
    """

    selector: ResourceSelector
    given: JSONObject
    item: JSONObject
    additional_items: Sequence[ResourceIdentifier] = ()
    skip: bool = False
    log: Sequence[LoggedLine] = ()

    def applies_to(self, resource: str) -> bool:
        """Whether the action would be given the item, which is one of `resource` (`deployments.apps`).

        Short names and singulars in the selector are known to a cluster only, not here.
        """
        metadata, wanted = self.given.get("metadata") or {}, self.selector
        namespaces = IncludesExcludes(wanted.included_namespaces, wanted.excluded_namespaces)
        namespace = metadata.get("namespace") or ""
        return (
            IncludesExcludes(wanted.included_resources, wanted.excluded_resources).matches(resource)
            and (namespaces.matches(namespace) if namespace else namespaces.includes_everything)
            and Selector.parse(wanted.label_selector).matches(metadata.get("labels"))
        )


@dataclass
class _Log:
    lines: list[LoggedLine] = field(default_factory=list)

    def log(
        self, level: str, msg: str, /, *, error: BaseException | str | None = None, **_fields: Any
    ) -> None:
        text = msg if error is None else f"{msg}: {describe(error) if not isinstance(error, str) else error}"
        self.lines.append(LoggedLine(level=level, message=text))


def run_backup_action(
    action: BackupItemAction,
    item: JSONObject,
    *,
    backup: Backup | None = None,
    config: Mapping[str, str] | None = None,
) -> ActionOutcome:
    """Run a BackupItemAction. Raises PluginError."""
    log = _Log()

    async def run() -> ActionOutcome:
        local = LocalBackupItemAction(action, log, read_config=_settings(config))
        selector = await local.applies_to()
        changed, additional = await local.execute(_copied(item), backup or Backup(metadata=_named("backup")))
        return ActionOutcome(
            selector=selector,
            given=item,
            item=_copied(changed),
            additional_items=additional,
            log=log.lines,
        )

    return _run(run())


def run_restore_action(
    action: RestoreItemAction,
    item: JSONObject,
    *,
    item_from_backup: JSONObject | None = None,
    restore: Restore | None = None,
    config: Mapping[str, str] | None = None,
) -> ActionOutcome:
    """Run a RestoreItemAction, by default on an item as it is in the backup. Raises PluginError."""
    log = _Log()

    async def run() -> ActionOutcome:
        local = LocalRestoreItemAction(action, log, read_config=_settings(config))
        selector = await local.applies_to()
        output = await local.execute(
            RestoreItemInput(
                item=_copied(item),
                item_from_backup=_copied(item_from_backup or item),
                restore=restore or Restore(metadata=_named("restore")),
            )
        )
        return ActionOutcome(
            selector=selector,
            given=item,
            item=_copied(output.item),
            additional_items=output.additional_items,
            skip=output.skip,
            log=log.lines,
        )

    return _run(run())


def run_delete_action(
    action: DeleteItemAction,
    item: JSONObject,
    *,
    backup: Backup | None = None,
    config: Mapping[str, str] | None = None,
) -> ActionOutcome:
    """Run a DeleteItemAction. Raises PluginError."""
    log = _Log()

    async def run() -> ActionOutcome:
        local = LocalDeleteItemAction(action, log, read_config=_settings(config))
        selector = await local.applies_to()
        await local.execute(_copied(item), backup or Backup(metadata=_named("backup")))
        return ActionOutcome(selector=selector, given=item, item=_copied(item), log=log.lines)

    return _run(run())


def check_object_store(store: ObjectStorePlugin, config: Mapping[str, str]) -> None:
    """Put, read, list and delete objects in a store that holds nothing yet below `pinnace-check/`.

    Args:
        config: as a location has it, with `bucket`.

    Raises:
        AssertionError: the store does not do what a location needs; the text says what.
        PluginError: it failed.
    """
    _run(_check_object_store(LocalObjectStore(store, _Log()), config))


def plugins_in(program: Path) -> list[str]:
    """Start a plugin's program as a server does and return what it offers, as `<kind> <name>`.

    Raises:
        PluginError: it is no plugin, or cannot be started.
    """
    from pinnace.plugins.host.discovery import list_plugins
    from pinnace.plugins.installed import PluginOptions
    from pinnace.plugins.logs import ProcessLog

    found = _run(list_plugins(program.absolute(), PluginOptions().launch, ProcessLog()))
    return [str(each.plugin) for each in found]


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise AssertionError(problem)


async def _check_object_store(store: LocalObjectStore, config: Mapping[str, str]) -> None:
    bucket, prefix = config.get("bucket", _BUCKET), "pinnace-check/"
    contents = {
        f"{prefix}a/empty": b"",
        f"{prefix}a/large": b"0123456789" * 500_000,
        f"{prefix}b/small": b"x",
    }
    await store.init(config)
    _require(not await store.object_exists(bucket, f"{prefix}missing"), "a missing object exists")
    for key, content in contents.items():
        await store.put_object(bucket, key, _blocks(content))
    for key, content in contents.items():
        _require(await store.object_exists(bucket, key), f"{key} was stored and does not exist")
        read = b"".join([block async for block in store.get_object(bucket, key)])
        _require(read == content, f"{key} came back with {len(read)} bytes, not as it was stored")
    keys = sorted(await store.list_objects(bucket, prefix))
    _require(keys == sorted(contents), f"list_objects: {keys}")
    prefixes = sorted(await store.list_common_prefixes(bucket, prefix, "/"))
    _require(prefixes == [f"{prefix}a/", f"{prefix}b/"], f"list_common_prefixes: {prefixes}")
    try:
        await anext(store.get_object(bucket, f"{prefix}missing"), b"")
    except PluginError:
        pass
    else:
        raise AssertionError("get_object: a missing object does not raise")
    await _check_broken_body(store, bucket, f"{prefix}broken")
    for key in contents:
        await store.delete_object(bucket, key)
    left = list(await store.list_objects(bucket, prefix))
    _require(not left, f"delete_object: still there: {left}")


async def _check_broken_body(store: LocalObjectStore, bucket: str, key: str) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield b"x" * 100_000
        raise _BrokenBody

    try:
        await store.put_object(bucket, key, breaking())
    except _BrokenBody:
        pass
    else:
        raise AssertionError("put_object: goes on although the body raised")
    _require(not await store.object_exists(bucket, key), "put_object: keeps an object whose body raised")


class _BrokenBody(Exception):
    pass


async def _blocks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1 << 20):
        yield content[start : start + (1 << 20)]


def _settings(config: Mapping[str, str] | None) -> ReadConfig:
    async def read() -> Mapping[str, str]:
        return config or {}

    return read


def _copied(item: JSONObject) -> JSONObject:
    """A copy by way of JSON, as between processes: an item that is no JSON fails here, not in production."""
    try:
        copied: JSONObject = orjson.loads(orjson.dumps(item))
    except orjson.JSONEncodeError as error:
        raise PluginError(f"the item is no JSON: {error}") from error
    return copied


def _named(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="velero")


def _run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    return asyncio.run(work)
