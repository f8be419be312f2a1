"""The check that a stored backup is whole: its files, each item of the tarball, and that they agree.

Nothing is restored. The tarball is read once from its beginning to its end, beside the index, so that memory
does not grow with the number of items; only the resource list is in memory as a whole, as everywhere.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from pinnace.aio.blocking import in_thread
from pinnace.api import phases
from pinnace.api.objects import JSONObject, names_by_kind, objects, text
from pinnace.api.values.counts import counted
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.archive.content import check_decodable, facts_of_foreign
from pinnace.archive.errors import ArchiveError
from pinnace.archive.item_index import IndexedItem
from pinnace.archive.paths import PREFERRED_SUFFIX, ItemLocation
from pinnace.browse.agreement import Agreement
from pinnace.browse.checks import Check, CheckResult
from pinnace.browse.errors import BrowseError, MissingFile, NoRoom
from pinnace.browse.failed_items import FailedItems, LogErrors
from pinnace.browse.index_check import IndexCheck, entry_of_item, item_title
from pinnace.browse.problems import Problems
from pinnace.browse.scanning import has_versions, placed_items
from pinnace.browse.stored import StoredBackup, StoredFiles, in_batches
from pinnace.storage.documents import DocumentError, document_of
from pinnace.storage.encoding import Document, read_document
from pinnace.storage.errors import UnreadableObject

Place = tuple[str, str, str]
"""Group-resource, namespace and name of an item."""


_SIDE_FILES: Final[Sequence[tuple[DownloadTargetKind, str, type | None, bool]]] = (
    # What it is, its name in the table, what is in it (None for text), and whether every backup has it.
    (DownloadTargetKind.BACKUP_LOG, "log", None, False),
    (DownloadTargetKind.BACKUP_RESOURCE_LIST, "resource list", dict, True),
    (DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS, "volume snapshots", list, True),
    (DownloadTargetKind.CSI_SNAPSHOTS, "CSI snapshots", list, False),
    (DownloadTargetKind.CSI_CONTENTS, "CSI snapshot contents", list, False),
    (DownloadTargetKind.BACKUP_VOLUME_INFOS, "volume infos", list, False),
    (DownloadTargetKind.BACKUP_RESULTS, "results", dict, False),
    (DownloadTargetKind.BACKUP_ITEM_OPERATIONS, "item operations", list, False),
)


async def verify(backup: StoredBackup, metadata: JSONObject) -> list[Check]:
    """Check a backup's metadata, files and items.

    Errors of the store are raised, and NoRoom; all else is a finding.
    """
    findings = [check_metadata(backup.name, metadata)]
    listed: dict[str, list[str]] | None = None
    added: frozenset[Place] = frozenset()
    agreement, failed = Agreement(metadata), FailedItems()
    for kind, title, content, is_required in _SIDE_FILES:
        finding, value = await _side_file(backup.files, kind, title, content, failed)
        if finding.result == CheckResult.MISSING and is_required:
            finding = Check(name=title, result=CheckResult.BAD, details="the file is missing")
        if finding.result != CheckResult.MISSING or kind == DownloadTargetKind.BACKUP_LOG:
            findings.append(finding)
        if kind == DownloadTargetKind.BACKUP_RESOURCE_LIST and finding.result == CheckResult.OK:
            try:
                listed = names_by_kind(value)
            except ValueError as error:
                findings[-1] = finding = Check(name=title, result=CheckResult.BAD, details=str(error))
            value = listed
        if kind == DownloadTargetKind.BACKUP_ITEM_OPERATIONS and finding.result == CheckResult.OK:
            added = _added_later(value)
        if kind == DownloadTargetKind.BACKUP_RESULTS and finding.result == CheckResult.OK:
            failed.add_results(value)
        if finding.result == CheckResult.OK:
            agreement.add(kind, value)
    findings.append(_finding(agreement.problems(), "files agree", ""))
    if text(metadata, "status", "phase") not in phases.FINISHED_IN_PART:
        failed = FailedItems()  # a backup that has errors says so
    return [*findings, *await _Items(backup, listed, added, failed).check()]


def check_metadata(name: str, metadata: JSONObject) -> Check:
    """Whether the Backup object can be that of a finished backup of this name."""
    status = metadata.get("status") or {}
    problems = []
    if (stored := (metadata.get("metadata") or {}).get("name")) != name:
        problems.append(f"it is of a backup named {stored!r}")
    if (phase := status.get("phase")) not in phases.FINISHED:
        problems.append(f"the phase is {phase or 'New'}")
    started, completed = status.get("startTimestamp"), status.get("completionTimestamp")
    if not started or not completed:
        problems.append("it lacks the time of its start or its end")
    elif str(started) > str(completed):
        problems.append("it ended before it started")
    result = CheckResult.BAD if problems else CheckResult.OK
    return Check(name="metadata", result=result, details="; ".join(problems) or str(phase))


async def _side_file(
    files: StoredFiles, kind: DownloadTargetKind, title: str, content: type | None, failed: FailedItems
) -> tuple[Check, Any]:
    document: Document[Any] = LogErrors(failed) if content is None else document_of(kind)
    try:
        async with files.stream(kind) as stream:
            value = await read_document(stream, document, key=title, may_be_plain=False)
    except MissingFile:
        detail = "the location did not keep it" if kind == DownloadTargetKind.BACKUP_LOG else ""
        return Check(name=title, result=CheckResult.MISSING, details=detail), None
    except UnreadableObject as error:
        return Check(name=title, result=CheckResult.BAD, details=error.reason), None
    except (BrowseError, DocumentError) as error:
        return Check(name=title, result=CheckResult.BAD, details=str(error)), None
    if content is None:
        return Check(name=title, result=CheckResult.OK), None
    if content is dict and value and not isinstance(value, dict):
        return Check(name=title, result=CheckResult.BAD, details="not an object in JSON"), None
    entries = counted(len(value or ()), "entry", "entries")
    return Check(name=title, result=CheckResult.OK, details=entries), value or content()


def _finding(problems: Problems, check: str, detail: str) -> Check:
    """BAD with the problems, or ok with the detail."""
    result = CheckResult.BAD if problems.count else CheckResult.OK
    return Check(name=check, result=result, details=str(problems) if problems.count else detail)


class _Copies:
    """Compares the two copies of each item: under its preferred version and without version.

    A restore reads either of them, so both must be there and equal. They follow each other in a tarball, so
    that hardly any content is kept.
    """

    def __init__(self) -> None:
        self.problems = Problems()
        self.count = 0
        self._last: tuple[ItemLocation, bytes] | None = None
        self._single: dict[Place, tuple[ItemLocation, bytes]] = {}

    def add(self, location: ItemLocation, content: bytes) -> None:
        if (last := self._last) is not None:
            self._last = None
            if last[0][3] == location[3] and _place(last[0]) == _place(location) and last[0] != location:
                self._compare(location, same=last[1] == content)
                return
            self._keep(*last)
        if _place(location) in self._single:
            self._keep(location, content)
        else:
            self._last = location, content

    def finding(self) -> Check:
        """To be called once, after the last item."""
        if self._last is not None:
            self._keep(*self._last)
        for location, _ in self._single.values():
            which = "under its version" if not location.version_directory else "without version"
            self.problems.add(f"{item_title(location)} has no copy {which}")
        return _finding(self.problems, "copies of items", counted(self.count, "pair"))

    def _keep(self, location: ItemLocation, content: bytes) -> None:
        digest = sha256(content).digest()
        other = self._single.pop(_place(location), None)
        if other is None:
            self._single[_place(location)] = location, digest
        else:
            self._compare(location, same=other[1] == digest and other[0] != location)

    def _compare(self, location: ItemLocation, *, same: bool) -> None:
        self.count += 1
        if not same:
            name = item_title(location)
            self.problems.add(f"{name}: its copies under its version and without version differ")


class _Items:
    """The items of the tarball against the index and the resource list.

    Args:
        listed: the resource list; None if it cannot be read.
        added: the items that need not be listed, see `_added_later`.
        failed: the items that are listed though they could not be saved.
    """

    def __init__(
        self,
        backup: StoredBackup,
        listed: dict[str, list[str]] | None,
        added: frozenset[Place],
        failed: FailedItems,
    ) -> None:
        self._added, self._failed = added, failed
        self._backup = backup
        self._tarball, self._list = Problems(), Problems()
        self._listed: dict[str, set[str]] | None = None
        if listed is not None:
            self._listed = {}
            for kind in list(listed):
                # Each list is dropped once its set exists, so that all names are in memory once.
                names = listed.pop(kind)
                unique = self._listed[kind] = set(names)
                if len(unique) < len(names):
                    self._list.add(
                        f"{kind} lists {counted(len(names) - len(unique), 'object')} more than once"
                    )
        self._items = 0
        self._copies = _Copies()
        self._versions = False

    async def check(self) -> list[Check]:
        try:
            path = await self._backup.tarball()
            size_bytes = path.stat().st_size
            self._versions = await in_thread(has_versions, path)
            index_finding = await self._beside_index(size_bytes)
        except NoRoom:
            raise
        except BrowseError as error:
            return [Check(name="tarball", result=CheckResult.BAD, details=str(error))]
        except ArchiveError as error:
            return [Check(name="tarball", result=CheckResult.BAD, details=f"damaged: {error}")]
        except OSError as error:
            raise NoRoom(f"the copy of the tarball of backup {self._backup.name}: {error}") from error
        items = self._items
        findings = [
            _finding(self._tarball, "tarball", f"{counted(items, 'item')}, {size_bytes} bytes"),
            index_finding,
        ]
        if self._versions:
            findings.append(self._copies.finding())
        if self._listed is not None:
            failed = Problems()
            for kind, names in sorted(self._listed.items()):
                for name in sorted(names):
                    if self._failed.has(name):
                        failed.add(f"{kind} {name}")
                    else:
                        self._list.add(f"{kind} {name} is listed, but not in the tarball")
            detail = counted(items, "item")
            if failed.count:
                detail += f"; {failed.count} failed while they were backed up: {failed}"
            findings.append(_finding(self._list, "resource list = content", detail))
        return findings

    async def _beside_index(self, size_bytes: int) -> Check:
        """Read tarball and index in step: both have their items in the same order."""
        begins: list[int] = []
        batches = in_batches(self._checked(await self._backup.tarball(), begins))
        async with aclosing(IndexCheck(self._backup)) as index, aclosing(batches) as items:
            async for batch in items:
                await index.add(batch)
            await index.finish(size_bytes, begins)
        if index.is_missing:
            return Check(name="index", result=CheckResult.MISSING, details="`backup index` writes it")
        if index.damage:
            return Check(name="index", result=CheckResult.BAD, details=f"damaged: {index.damage}")
        return _finding(index.problems, "index", counted(index.count, "checksum"))

    def _checked(self, tarball: Path, begins: list[int]) -> Iterator[IndexedItem]:
        """Check the items themselves; yields for each what an index has of it. Runs in threads.

        In the end `begins` has the offsets where spans begin.

        Contents stay in their thread: moving them to another costs as much as the checks.
        """
        for location, content, place in placed_items(tarball, begins=begins):
            if self._versions and _has_two_copies(location):
                self._copies.add(location, content)
                if not location.version_directory:
                    continue  # an equal copy needs no check of its own
            self._item(location, content)
            yield entry_of_item(location, content, place)

    def _item(self, location: ItemLocation, content: bytes) -> None:
        api_version: object = ""
        kind: object = ""
        try:
            check_decodable(content)
            obj = orjson.loads(content)
        except ArchiveError as error:
            self._tarball.add(f"{item_title(location)}: {error}")
        except orjson.JSONDecodeError as error:
            if not _is_deep(content):
                self._tarball.add(f"{item_title(location)}: not valid JSON: {error.msg}")
            facts = facts_of_foreign(content)
            api_version, kind = orjson.loads(facts.api_version), orjson.loads(facts.kind)
        else:
            metadata = obj.get("metadata") if isinstance(obj, dict) else None
            if isinstance(metadata, dict):
                api_version, kind = obj.get("apiVersion"), obj.get("kind")
                named = metadata.get("namespace") or "", metadata.get("name")
                if named != (location.namespace, location.name):
                    self._tarball.add(f"{item_title(location)}: the object in it has another name")
            else:
                self._tarball.add(f"{item_title(location)}: not a Kubernetes object")
        if location.version_directory and not location.version_directory.endswith(PREFERRED_SUFFIX):
            return
        self._items += 1
        if self._listed is not None:
            self._check_listed(location, self._listed.get(f"{api_version}/{kind}", set()))

    def _check_listed(self, location: ItemLocation, listed: set[str]) -> None:
        key = f"{location.namespace}/{location.name}" if location.namespace else location.name
        if key in listed:
            listed.discard(key)
        elif _place(location) not in self._added:
            self._list.add(f"{item_title(location)} is in the tarball, but not listed")


def _has_two_copies(location: ItemLocation) -> bool:
    return not location.version_directory or location.version_directory.endswith(PREFERRED_SUFFIX)


def _added_later(operations: Iterable[JSONObject]) -> frozenset[Place]:
    """The items that operations of the backup add to it at their end, such as the DataUpload of moved data.

    Velero adds them to the tarball when it finalizes the backup, and leaves the resource list as it was.
    """
    return frozenset(
        (
            f"{text(item, 'Resource')}.{text(item, 'Group')}".rstrip("."),
            text(item, "Namespace"),
            text(item, "Name"),
        )
        for operation in operations
        for item in objects(operation, "spec", "postOperationItems")
    )


def _place(location: ItemLocation) -> Place:
    return location.group_resource, location.namespace, location.name


def _is_deep(content: bytes) -> bool:
    """Whether an object is nested deeper than the parser follows. Such objects are valid."""
    return content.count(b"{") + content.count(b"[") > 900
