"""The delete item actions of plugins, run over the items of a backup that is deleted.

    ask each what it wants ──> fetch the contents ──> (the Backup is marked) ──> each item: actions in order

All steps that can fail come before anything is touched. Without any action the contents are not fetched; a
backup without contents, such as a failed one, is deleted without its actions being called.
(docs/spec: CTL 6.3, PLG 7.3)
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from pinnace.api.objects import JSONObject
from pinnace.api.values.counts import counted
from pinnace.api.velero.backup import Backup
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.discovery import Discovery
from pinnace.plugins.errors import PluginCallError, PluginError
from pinnace.plugins.protocols import DeleteItemAction
from pinnace.plugins.resolved import ActionTable, ResolvedAction
from pinnace.restore.selection.left_out import ArchivedKinds
from pinnace.runtime.logfields import get_logger
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound

log = get_logger(__name__)

Action = ResolvedAction[DeleteItemAction]

_MOST_ERRORS: Final = 50
_ITEMS_BETWEEN_YIELDS = 200
"""Items that no action wants are passed by without waiting; other tasks run this often."""


@dataclass(frozen=True, slots=True)
class _Item:
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace}/{self.name}".replace(" /", " ")


@asynccontextmanager
async def delete_actions(
    scope: Scope, actions: Sequence[DeleteItemAction], store: BackupStore, backup: Backup
) -> AsyncIterator["DeleteActions | None"]:
    """The actions to run for a backup, None if there are none; the fetched contents are removed at the end.

    Raises:
        PluginError: an action did not answer; nothing was run.
        ArchiveError: the contents are damaged, and will be so the next time.
        StorageError, KubeError: contents or cluster cannot be read now.
    """
    if not actions:
        yield None
        return
    discovery = await Discovery.load(scope.client, all_versions=scope.all_versions)
    table = ActionTable([await _resolve(action, discovery.canonical) for action in actions])
    with tempfile.TemporaryDirectory(prefix="deletion-", dir=scope.workdir) as folder:
        archive = await _fetch(store, backup.metadata.name, Path(folder))
        if archive is None:
            log.warning("The backup has no contents in its location; its delete item actions are not run")
            yield None
            return
        with archive:
            archived = ArchivedKinds(archive.resources)
            for warning in table.without_items(discovery, is_known=archived.has):
                log.warning("%s", warning)
            yield DeleteActions(table, archive, backup, discovery.canonical)


async def _fetch(store: BackupStore, backup: str, folder: Path) -> ArchiveIndex | None:
    """The contents of a backup, None if there are none."""
    path = folder / "contents.tar.gz"
    try:
        await store.download_contents(backup, path)
    except ObjectNotFound:
        return None
    archive = await ArchiveIndex.open(path, folder)
    path.unlink()  # all is in the index's spool: disk space is what large backups lack
    return archive


async def _resolve(action: DeleteItemAction, canonical: Callable[[str], str]) -> Action:
    wanted = await action.applies_to()
    try:
        return ResolvedAction.of(action, wanted, canonical)
    except ValueError as error:
        raise PluginCallError(action.name, f"its label selector is not valid: {error}") from error


@dataclass(frozen=True, slots=True)
class DeleteActions:
    """The actions and the items that they are called with; made by `delete_actions`."""

    actions: ActionTable[DeleteItemAction]
    archive: ArchiveIndex
    backup: Backup
    canonical: Callable[[str], str]

    async def run(self) -> list[str]:
        """Call every action with every item that it wants; return the errors.

        An error stops no other action, and keeps the files of the backup for another try: a plugin must be
        ready to be called again for an item that it has done. (docs/spec/after-1.18.md, 7.6)
        """
        log.info("Running delete item actions", actions=self.actions.names)
        errors, passed = [], 0
        for item, actions in self._items():
            passed += 1
            if passed % _ITEMS_BETWEEN_YIELDS == 0:
                await asyncio.sleep(0)
            try:
                obj, own_labels = _decoded(self.archive.read(item.resource, item.namespace, item.name))
            except (ArchiveError, ValueError) as error:
                errors.append(f"error reading {item} of the backup for delete item actions: {error}")
                continue
            for action in actions:
                if action.wants(item.namespace, own_labels):
                    errors += await self._execute(action.action, item, obj)
        if (more := len(errors) - _MOST_ERRORS) > 0:  # they go into the status of one object
            return [*errors[:_MOST_ERRORS], f"{counted(more, 'more error')}, in the log of the server"]
        return errors

    def _items(self) -> Iterator[tuple[_Item, Sequence[Action]]]:
        """The items of kinds that actions want; a kind with two names in the archive counts once.

        A kind that the cluster does not know any more has its name in the archive: actions still have to
        clean up what its items stand for outside of the cluster.
        """
        handled: set[str] = set()
        for resource in self.archive.resources:
            canonical = self.canonical(resource)
            if canonical in handled:
                continue
            handled.add(canonical)
            actions = self.actions.for_resource(canonical)
            for namespace in self.archive.namespaces(resource) if actions else ():
                for name in self.archive.names(resource, namespace):
                    yield _Item(resource, namespace, name), actions

    async def _execute(self, action: DeleteItemAction, item: _Item, obj: JSONObject) -> list[str]:
        try:
            await action.execute(obj, self.backup)
        except PluginError as error:
            log.error("Error in a delete item action", action=action.name, item=str(item), error=error)
            return [
                f"error invoking delete item actions: error executing DeleteItemAction for {item}: {error}"
            ]
        return []


def _decoded(data: bytes) -> tuple[JSONObject, dict[str, str]]:
    """An item and its labels. Raises ValueError."""
    obj = orjson.loads(data)
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError("it is no object of the API")
    own_labels = metadata.get("labels") or {}
    if not isinstance(own_labels, dict):
        raise ValueError("its labels are no mapping")
    return obj, own_labels
