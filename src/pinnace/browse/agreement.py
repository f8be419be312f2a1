"""Whether the files beside a backup's tarball agree with the Backup object and with one another. Pure.

A file that was changed, or taken from another backup, is found by the others. Counts are compared only where
all writers of backups mean the same by them.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

from pinnace.api.objects import JSONObject, listed, mapping, member, text
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.snapshots import VolumeSnapshotPhase
from pinnace.api.volume_info import BackupMethod
from pinnace.browse.problems import Problems

_SEVERITIES: Final = ("errors", "warnings")


class Agreement:
    """Takes the files one after the other and keeps counts of them."""

    def __init__(self, metadata: JSONObject) -> None:
        """Args:
        metadata: the Backup object.
        """
        self._status = mapping(metadata, "status")
        self._counts: dict[str, int] = {}
        self._snapshots: set[str] | None = None
        self._recorded: set[str] = set()

    def add(self, kind: DownloadTargetKind, content: Any) -> None:
        """Take the content of a file that could be read."""
        if kind == DownloadTargetKind.BACKUP_RESOURCE_LIST and isinstance(content, Mapping):
            self._counts["listed"] = sum(map(len, content.values()))
        elif kind == DownloadTargetKind.BACKUP_ITEM_OPERATIONS:
            self._counts["operations"] = len(content)
        elif kind == DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS:
            self._add_snapshots(content)
        elif kind == DownloadTargetKind.BACKUP_VOLUME_INFOS:
            self._recorded = set(_native_handles(content))
        elif kind == DownloadTargetKind.BACKUP_RESULTS:
            for severity in _SEVERITIES:
                self._counts[severity] = _messages(mapping(content, severity))

    def problems(self) -> Problems:
        """Return the disagreements, after the last file."""
        found = Problems()
        if (counted := member(self._status, "progress", "itemsBackedUp")) is not None:
            self._compare_items(counted, found)
        if self._snapshots is not None:
            for field, what in (
                ("volumeSnapshotsAttempted", "snapshots"),
                ("volumeSnapshotsCompleted", "completed snapshots"),
            ):
                noted = self._status.get(field) or 0
                if noted != (number := self._counts[what]):
                    found.add(f"the metadata counts {noted!r} {what} of volumes, {number} are recorded")
            found.add_all(
                f"the volume infos name a snapshot {handle} without a record"
                for handle in sorted(self._recorded - self._snapshots)
            )
        for severity in _SEVERITIES:
            noted, stored = self._status.get(severity) or 0, self._counts.get(severity)
            # Not every message is stored; but there are some of both, or none of either.
            if stored is not None and bool(noted) != bool(stored):
                found.add(f"the metadata counts {noted!r} {severity}, the results have {stored}")
        return found

    def _compare_items(self, counted: object, found: Problems) -> None:
        number = self._counts.get("listed")
        if number is None or counted == number:
            return
        # What operations have made is listed at the end; the count was written before.
        if self._counts.get("operations") and isinstance(counted, int) and counted < number:
            return
        found.add(f"the metadata counts {counted!r} items, the resource list has {number}")

    def _add_snapshots(self, records: Iterable[JSONObject]) -> None:
        self._snapshots = set()
        attempted = completed = 0
        for record in records:
            attempted += 1
            completed += text(record, "status", "phase") == VolumeSnapshotPhase.COMPLETED
            self._snapshots.add(text(record, "status", "providerSnapshotID"))
        self._counts["snapshots"], self._counts["completed snapshots"] = attempted, completed


def _native_handles(infos: Iterable[JSONObject]) -> Iterable[str]:
    for info in infos:
        handle = text(info, "nativeSnapshotInfo", "snapshotHandle")
        if handle and text(info, "backupMethod") == BackupMethod.NATIVE_SNAPSHOT:
            yield handle


def _messages(results: JSONObject) -> int:
    """How many messages of one severity there are."""
    own = chain(listed(results, "velero"), listed(results, "cluster"))
    return sum(1 for _ in own) + sum(
        len(texts) for texts in mapping(results, "namespaces").values() if isinstance(texts, list)
    )
