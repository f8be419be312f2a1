"""The files of one backup, as the engine hands them over. (docs/spec: STO 3)"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from pinnace.api.codec import encode, encode_over
from pinnace.api.labels import ENCRYPTED
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.snapshots import VolumeSnapshot, encode_snapshots
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.storage.encoding import compress, encode_list, encode_object
from pinnace.storage.errors import StorageError
from pinnace.storage.interface import stream_file
from pinnace.storage.layout import Layout

if TYPE_CHECKING:
    from pinnace.age.payload import Sealing


class BackupFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a backup before their upload.

    Attributes:
        name: the Backup's name.
        owner: the uid of the Backup; a server recognises an interrupted upload by it. Empty without a server.
        expiration: of the Backup; object lock may hold the files until then.
        metadata: `velero-backup.json` as encode_metadata() gives it; None stores the log alone.
        contents: the tarball.
        index: the index of the tarball; None leaves the file out. (docs/adr/057)
        log: the gzip'd log; its upload may fail without harm.
        pod_volume_backups: whole PodVolumeBackup objects.
        snapshots: records of native snapshots.
        resource_list: `<apiVersion>/<kind>` to sorted names.
        csi_volume_snapshots, csi_volume_snapshot_contents: whole objects; None leaves the file out.
        volume_infos: records of the volumes for later Velero; none leaves the file out. (BEY 3.6)
        results: warnings and errors for later Velero clients; None leaves the file out. (docs/spec: BEY 3.4)
        item_operations: the operations that outlast the run; none leaves the file out. (docs/spec: BEY 3.8)
        plain_list: the list of an encrypted backup's data outside of its files; None leaves the file out.
            (docs/adr/124)
    """

    name: str
    owner: str = ""
    expiration: datetime | None = None
    metadata: bytes | None
    contents: Path | None
    index: Path | None = None
    log: Path | None = None
    pod_volume_backups: Sequence[Mapping[str, Any]] = ()
    snapshots: Sequence[VolumeSnapshot] = ()
    resource_list: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    csi_volume_snapshots: Sequence[Mapping[str, Any]] | None = ()
    csi_volume_snapshot_contents: Sequence[Mapping[str, Any]] | None = ()
    volume_infos: Sequence[BackupVolumeInfo] = ()
    results: Mapping[str, Any] | None = None
    item_operations: Sequence[Mapping[str, Any]] = ()
    plain_list: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """The size of the large files: tarball, index and log."""
        return sum(path.stat().st_size for path in (self.contents, self.index, self.log) if path is not None)

    def encoded(self, layout: Layout) -> dict[str, bytes]:
        """The side files by key, compressed: everything but metadata, tarball and log.

        Raises:
            StorageError: something is not JSON; the text names the backup.
        """
        target, name = layout.target, self.name
        try:
            files = {
                layout.pod_volume_backups(name): encode_list(self.pod_volume_backups),
                target(DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS, name): compress(
                    encode_snapshots(self.snapshots)
                ),
                target(DownloadTargetKind.BACKUP_RESOURCE_LIST, name): encode_object(self.resource_list),
            }
            if self.csi_volume_snapshots is not None:
                key = target("CSIBackupVolumeSnapshots", name)
                files[key] = encode_list(self.csi_volume_snapshots)
            if self.csi_volume_snapshot_contents is not None:
                key = target("CSIBackupVolumeSnapshotContents", name)
                files[key] = encode_list(self.csi_volume_snapshot_contents)
            if self.volume_infos:
                key = target("BackupVolumeInfos", name)
                files[key] = encode_list([encode(info) for info in self.volume_infos])
            if self.item_operations:
                key = target("BackupItemOperations", name)
                files[key] = encode_list(self.item_operations)
            if self.results is not None:
                files[target("BackupResults", name)] = encode_object(self.results)
            if self.plain_list is not None:
                files[layout.plain_list(name)] = self.plain_list
        except StorageError as error:
            raise StorageError(f"backup {name!r}: {error}") from error
        return files


class FinalFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What has changed of a backup while it waited for operations; None is a file that has not.

    Attributes:
        contents, index, log: as in `BackupFiles`.
        resource_list, volume_infos, results, plain_list: as in `BackupFiles`.
    """

    contents: Path | None = None
    index: Path | None = None
    log: Path | None = None
    resource_list: Mapping[str, Sequence[str]] | None = None
    volume_infos: Sequence[BackupVolumeInfo] | None = None
    results: Mapping[str, Any] | None = None
    plain_list: bytes | None = None

    def encoded(self, layout: Layout, name: str) -> dict[str, Path | bytes]:
        """The files by key. Raises StorageError for what is not JSON."""
        contents: dict[str, Path | bytes | None] = {
            DownloadTargetKind.BACKUP_LOG: self.log,
            DownloadTargetKind.BACKUP_CONTENTS: self.contents,
            DownloadTargetKind.ITEM_INDEX: self.index,
            DownloadTargetKind.BACKUP_RESOURCE_LIST: (
                None if self.resource_list is None else encode_object(self.resource_list)
            ),
            "BackupVolumeInfos": (
                None
                if self.volume_infos is None
                else encode_list([encode(info) for info in self.volume_infos])
            ),
            "BackupResults": None if self.results is None else encode_object(self.results),
        }
        files = {layout.target(kind, name): each for kind, each in contents.items() if each is not None}
        if self.plain_list is not None:
            files[layout.plain_list(name)] = self.plain_list
        return files


def encode_metadata(value: Backup | Restore, read: Mapping[str, Any] | None = None) -> bytes:
    """`velero-backup.json` and `velero-restore.json`: indented by 2, `kind` first. (docs/spec: STO 3.1)

    Args:
        read: the object that `value` was read from, whose fields of other versions are kept.
    """
    encoded = encode_over(value, read or {})
    ordered = {"kind": encoded.pop("kind"), "apiVersion": encoded.pop("apiVersion"), **encoded}
    return orjson.dumps(ordered, option=orjson.OPT_INDENT_2)


def mark_encrypted(metadata: bytes) -> bytes:
    """`velero-backup.json` of an encrypted backup, so that its readers know without a request."""
    content = orjson.loads(metadata)
    content.setdefault("metadata", {}).setdefault("annotations", {})[ENCRYPTED] = "true"
    return orjson.dumps(content, option=orjson.OPT_INDENT_2)


class StoredFile(msgspec.Struct, frozen=True):
    """A file as the store has it.

    Attributes:
        sha256: of the stored bytes, in lower-case hexadecimal digits.
        size_bytes: of the stored bytes.
    """

    key: str
    sha256: str
    size_bytes: int


def stored_bytes(key: str, body: bytes) -> StoredFile:
    """The record of a file that was stored from memory."""
    return StoredFile(key, sha256(body).hexdigest(), len(body))


class CountedFile:
    """Reads a file in blocks, encrypts it if that is asked for, and counts and hashes what it hands out.

    The thread that reads a block encrypts and hashes it too, so that the event loop only counts.

    Attributes:
        size_bytes: of what was handed out.
        read_bytes: of the file, as far as it was reported.
    """

    def __init__(
        self, path: Path, report: Callable[[int], None] | None = None, sealing: "Sealing | None" = None
    ) -> None:
        """Args:
        report: called with the size of each block that was read.
        sealing: of this file alone.
        """
        self.size_bytes = 0
        self.read_bytes = 0
        self._report = report
        self._sealing = sealing
        self._sha256 = sha256()
        self._blocks: deque[int] = deque()
        self._stream = stream_file(path, self._made, self._end)

    def _made(self, block: bytes) -> bytes:
        self._blocks.append(len(block))
        made = self._sealing.feed(block) if self._sealing is not None else block
        self._sha256.update(made)
        return made

    def _end(self) -> bytes:
        made = self._sealing.finish() if self._sealing is not None else b""
        self._sha256.update(made)
        return made

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for block in self._stream:
            self.size_bytes += len(block)
            while self._blocks:
                size_bytes = self._blocks.popleft()
                self.read_bytes += size_bytes
                if self._report is not None:
                    self._report(size_bytes)
            yield block

    def stored(self, key: str) -> StoredFile:
        """The record of the file, after all of it was sent."""
        return StoredFile(key, self._sha256.hexdigest(), self.size_bytes)

    async def aclose(self) -> None:
        """Close the file."""
        await self._stream.aclose()
