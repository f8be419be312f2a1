"""Writes the items that went through the pipeline to the archive. (docs/spec: BKP 6.3)"""

import orjson

from pinnace.api.objects import JSONObject, dump_json
from pinnace.archive.errors import ArchiveError
from pinnace.archive.paths import item_file, item_scope
from pinnace.archive.tarformat import MemberDirectory
from pinnace.backup.errors import BackupError, ItemFailed
from pinnace.backup.item.context import BackupRun, item_heads
from pinnace.backup.item.tracking import identity_of, item_key, kind_of
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice


class ItemArchive:
    """The changed items of one run: none gets the path of another."""

    def __init__(self, run: BackupRun) -> None:
        self._run = run
        self._renamed_from: set[str] = set()
        self._renamed_to: set[str] = set()

    async def write(
        self, item: JSONObject, original: tuple[str, str], resource: APIResource, api_version: str
    ) -> None:
        """Archive the item under its new name and its original version. (docs/spec: BKP 6.3)"""
        run = self._run
        identity = identity_of(item)
        try:
            scope, file = item_scope(identity[0]), item_file(identity[1])
            data = dump_json(item, sort_keys=True)
        except (ArchiveError, orjson.JSONEncodeError) as error:
            raise ItemFailed([error]) from error
        heads = item_heads(run.discovery, resource, api_version)
        if identity != original:
            is_known = run.tracker.has(kind_of(item), item_key(*identity))
            self._rename(
                heads[0] + item_scope(original[0]) + item_file(original[1]), heads[0] + scope + file, is_known
            )
        elif heads[0] + scope + file in self._renamed_to:
            text = f"an action gave the name {item_key(*identity)} to another item"
            raise ItemFailed([BackupError(Notice(Code.ACTION_FAILED, text))])
        run.writer.add_copies([MemberDirectory(head + scope) for head in heads], file, b"", data)
        await run.writer.flush_if_full()

    def _rename(self, old_path: str, new_path: str, is_known: bool) -> None:
        """Refuse a new name that another item has: the archive may hold each path once."""
        if new_path in self._renamed_to or (is_known and new_path not in self._renamed_from):
            text = f"an action gave the item the path of another item: {new_path}"
            raise ItemFailed([BackupError(Notice(Code.ACTION_FAILED, text))])
        self._renamed_to.add(new_path)
        self._renamed_from.add(old_path)
