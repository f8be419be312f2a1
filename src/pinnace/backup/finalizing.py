"""Reads items again that operations have changed, so that the backup has their final state.

An item action of version 2 names such items with its operation, for instance an object whose status gets its
last values only when the data has been moved. When all operations have ended, each item is read, passed
through the actions and put into the tarball, where it replaces the earlier version, if there is one.
(docs/spec: BEY 4.3)
"""

from collections.abc import Iterable, Sequence

import msgspec
import orjson

from pinnace.api.labels import MUST_INCLUDE_ADDITIONAL_ITEMS
from pinnace.api.objects import JSONObject, dump_json, mapping
from pinnace.api.velero.backup import Backup
from pinnace.archive.errors import ArchiveError
from pinnace.archive.paths import item_file, item_scope
from pinnace.backup.actions import BackupActions
from pinnace.backup.cluster import ClusterReader
from pinnace.backup.conversion import get_in_any_version
from pinnace.backup.item.acting import is_to_be_skipped, must_include
from pinnace.backup.item.context import item_heads
from pinnace.backup.item.tracking import item_key, kind_key
from pinnace.backup.progress import item_fields
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, NotFound, UnknownResource
from pinnace.plugins.asynchronous import BackupItemOutput
from pinnace.plugins.logs import LogSink, plugin_lines_to
from pinnace.plugins.protocols import ResourceIdentifier


class UpdatedItems(msgspec.Struct, kw_only=True):
    """The items that were read again.

    Attributes:
        files: path in the tarball to content.
        listed: kind to keys, as in the resource list.
        objects: the items as they are in the backup now.
        errors: why an item could not be updated; each counts as an error of the backup.
    """

    files: dict[str, bytes] = msgspec.field(default_factory=dict)
    listed: dict[str, set[str]] = msgspec.field(default_factory=dict)
    objects: dict[ResourceIdentifier, JSONObject] = msgspec.field(default_factory=dict)
    errors: list[str] = msgspec.field(default_factory=list)


class Finalizer(msgspec.Struct, frozen=True, kw_only=True):
    """Reads items again. No hook runs, and no volume is saved again.

    Attributes:
        log: gets the lines of actions, and a warning for each item that is gone.
    """

    client: ClusterReader
    discovery: Discovery
    actions: BackupActions
    backup: Backup
    log: LogSink

    async def update(self, wanted: Iterable[ResourceIdentifier]) -> UpdatedItems:
        """The items as they are now, and those that actions name for them."""
        found = UpdatedItems()
        waiting = list(wanted)
        seen: set[ResourceIdentifier] = set()
        while waiting:
            identifier = waiting.pop(0)
            if identifier in seen:
                continue
            seen.add(identifier)
            try:
                waiting += await self._update(identifier, found)
            except _NotUpdated as error:
                where = item_key(identifier.namespace, identifier.name)
                found.errors.append(f"updating {identifier.group_resource} {where}: {error}")
        return found

    async def _update(
        self, identifier: ResourceIdentifier, found: UpdatedItems
    ) -> Sequence[ResourceIdentifier]:
        """Read one item; returns the items that actions name for it. Raises _NotUpdated."""
        try:
            resource = self.discovery.resolve(identifier.group_resource)
            item = await get_in_any_version(
                self.client, self.discovery, resource, identifier.name, identifier.namespace or None
            )
        except NotFound:
            # An action may name an item that its operation removes.
            self.log.log(
                "warning",
                "An item that was to be read again after an operation is gone: the backup keeps it as it was",
                **item_fields(identifier.group_resource, identifier.namespace, identifier.name),
            )
            return ()
        except (UnknownResource, KubeError) as error:
            raise _NotUpdated(str(error)) from error
        item, additional = await self._run_actions(item, resource.group_resource, identifier)
        metadata = item.get("metadata") or {}
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
        try:
            data = dump_json(item, sort_keys=True)
            file = item_scope(namespace) + item_file(name)
        except (ArchiveError, orjson.JSONEncodeError) as error:
            raise _NotUpdated(str(error)) from error
        for head in item_heads(self.discovery, resource, item.get("apiVersion", "")):
            found.files[head + file] = data
        kind = kind_key(item.get("apiVersion", ""), item.get("kind", ""))
        found.objects[identifier] = item
        found.listed.setdefault(kind, set()).add(item_key(namespace, name))
        return additional

    async def _run_actions(
        self, item: JSONObject, group_resource: str, identifier: ResourceIdentifier
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        additional: list[ResourceIdentifier] = []
        labels = (item.get("metadata") or {}).get("labels") or {}
        for resolved in self.actions.for_resource(group_resource):
            if not resolved.wants(identifier.namespace, labels):
                continue
            action = resolved.action
            has_own = MUST_INCLUDE_ADDITIONAL_ITEMS in mapping(item, "metadata", "annotations")
            try:
                with plugin_lines_to(self.log, action.name):
                    answer = await action.execute(item, self.backup)
            except Exception as error:  # foreign code: whatever it raises fails this item only
                raise _NotUpdated(str(error)) from error
            if not isinstance(answer, BackupItemOutput):
                answer = BackupItemOutput(item=answer[0], additional_items=answer[1])
            if answer.operation_id:
                raise _NotUpdated(
                    f"{action.name} started operation {answer.operation_id}, which no backup would wait for"
                )
            item = answer.item
            if is_to_be_skipped(item):
                raise _NotUpdated(f"{action.name} left it out, but the backup has it already")
            if not has_own:
                must_include(item)  # every item read again is in the backup: only removes the annotation
            additional += answer.additional_items
        return item, additional


class _NotUpdated(Exception):
    """An item is in the backup as it was before the operations, or not at all."""
