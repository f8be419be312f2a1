"""Writes items that no action, hook or volume needs to the archive without decoding them.

These are most items of a cluster: nothing is decoded, nothing waits, and only the name of an item is kept in
memory. Values that neighbours share (kind, namespace) are computed when they change, not for each item.
"""

from collections.abc import Callable

from pinnace.api.kinds import NAMESPACES
from pinnace.api.labels import EXCLUDE_FROM_BACKUP, EXCLUDE_FROM_BACKUP_VALUE
from pinnace.archive.errors import ArchiveError
from pinnace.archive.paths import item_file, item_scope
from pinnace.archive.tarformat import MemberDirectory
from pinnace.backup.errors import ItemFailed
from pinnace.backup.item.context import BackupRun, item_heads
from pinnace.backup.item.tracking import kind_key
from pinnace.backup.progress import PROGRESS_MESSAGE, item_fields, trace_item
from pinnace.kube.lists.pages import Item
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice


class RawItems:
    """Writes pages of one resource to the archive unchanged."""

    def __init__(self, run: BackupRun, resource: APIResource) -> None:
        self._run = run
        self._resource = resource
        self._group_resource = resource.group_resource
        self._is_namespaces = resource.group_resource == NAMESPACES.group_resource
        self._type: tuple[str, str] | None = None
        self._heads: tuple[str, ...] = ()
        self._seen: set[str] = set()
        self._namespace: str | None = None
        self._is_admitted = False
        self._directories: list[MemberDirectory] = []
        self._key_prefix = ""
        self._log: Callable[[int, int, str], None] = lambda _done, _total, _name: None

    async def back_up(self, items: list[Item], expected: int) -> bool:
        """Put items into the archive that the rules admit and that are not there yet. (docs/spec: BKP 6.1)

        Args:
            items: of one page.
            expected: how many items are known to come after this page.

        Returns:
            Whether at least one item is in the backup, now or already.
        """
        run = self._run
        writer = run.writer
        done = run.tracker.count
        left = len(items) + expected
        any_taken = False
        is_traced = run.log.writes_debug
        for item in items:
            left -= 1
            if item.deleting or not self._admits(item):
                continue
            any_taken = True
            name = item.name
            key = self._key_prefix + name
            if key in self._seen:
                continue
            self._seen.add(key)
            done += 1
            if is_traced:
                trace_item(run.log, self._group_resource, item.namespace, name)
            try:
                file = item_file(name)
            except ArchiveError as error:
                self._fail(item, key, error)
                continue
            if item.is_deep:
                self._warn_of_depth(item)
            writer.add_copies(self._directories, file, *item.parts())
            self._log(done, done + left, name)
            if writer.is_full:
                await writer.flush_if_full()
                done = run.tracker.count  # other lists have been read meanwhile
                run.progress.update(done, done + left)
        run.progress.update(done, done + left)
        return any_taken

    def _admits(self, item: Item) -> bool:
        if (item.api_version, item.kind) != self._type:
            self._take_type(item.api_version, item.kind)
        if item.namespace != self._namespace:
            self._take_namespace(item.namespace)
        if item.label(EXCLUDE_FROM_BACKUP) == EXCLUDE_FROM_BACKUP_VALUE:
            return False
        if self._is_namespaces:
            return self._run.scope.admits_namespace(item.name)
        return self._is_admitted

    def _take_type(self, api_version: str, kind: str) -> None:
        self._type = (api_version, kind)
        self._seen = self._run.tracker.keys_of(kind_key(api_version, kind))
        self._heads = item_heads(self._run.discovery, self._resource, api_version)
        self._namespace = None

    def _take_namespace(self, namespace: str) -> None:
        self._namespace = namespace
        self._is_admitted = not namespace or self._run.scope.admits_namespace(namespace)
        scope = item_scope(namespace)
        self._directories = [MemberDirectory(head + scope) for head in self._heads]
        self._key_prefix = f"{namespace}/" if namespace else ""
        self._log = self._run.log.info_series(
            PROGRESS_MESSAGE, "name", progress="", resource=self._group_resource, namespace=namespace
        )

    def _warn_of_depth(self, item: Item) -> None:
        self._run.log.warning(
            Notice(
                Code.ITEM_TOO_DEEP,
                "The object is saved, but it is nested more than a thousand levels deep and cannot be"
                " restored",
            ),
            **item_fields(self._group_resource, item.namespace, item.name),
        )

    def _fail(self, item: Item, key: str, error: ArchiveError) -> None:
        self._run.tracker.leave_out(kind_key(item.api_version, item.kind), key)
        self._run.report(ItemFailed([error]), self._group_resource, item.namespace, item.name)
