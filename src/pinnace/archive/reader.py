"""Reads a backup tarball: one pass that decompresses it into a private spool file, with an index beside it.

Members of an archive come in any order, so nothing can be restored while it is being read; thousands of small
files would be slow and everything in memory too large. The spool is one nameless file: it is unlinked as soon
as it is open, so nothing of it stays behind, however the process ends. (docs/spec: RST 6, BEY 11.1)

The index costs about 130 bytes an item: a list of names, and arrays of offsets and sizes, a pair for each
(resource, namespace).
"""

import asyncio
import os
import tempfile
import threading
from array import array
from bisect import bisect_left
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from pinnace.aio.temporary import problem_text
from pinnace.api.kinds import NAMESPACES
from pinnace.archive.content import check_decodable
from pinnace.archive.deflate import inflate
from pinnace.archive.errors import ArchiveError, MissingItem
from pinnace.archive.paths import (
    ITEM_SUFFIX,
    PREFERRED_SUFFIX,
    RESOURCES_DIRECTORY,
    VERSION_FILE,
    item_path,
    parse_item_path,
)
from pinnace.archive.scan import ArchiveLimits, Member, TarStream

__all__ = ["ArchiveError", "ArchiveIndex", "ArchiveLimits", "MissingItem"]

_SPOOL_BATCH_BYTES = 1024 * 1024
_MAX_WARNINGS = 100
_MAX_VERSION_FILE_BYTES = 64


class _Copies(NamedTuple):
    """Which copies under version directories are kept, besides the items themselves."""

    preferred: bool
    others: bool

    def keeps(self, version_directory: str) -> bool:
        if not version_directory:
            return True
        return self.preferred if version_directory.endswith(PREFERRED_SUFFIX) else self.others


class _Items:
    """The items of one resource in one namespace, sorted by file name after `seal`."""

    __slots__ = ("names", "offsets", "sizes")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.offsets = array("Q")
        self.sizes = array("Q")

    def seal(self) -> str | None:
        """Sort by file name, suffix included: `a-b` before `a`. Returns a name that occurs twice, if any."""
        order = sorted(range(len(self.names)), key=lambda index: self.names[index] + ITEM_SUFFIX)
        self.names = [self.names[index] for index in order]
        self.offsets = array("Q", (self.offsets[index] for index in order))
        self.sizes = array("Q", (self.sizes[index] for index in order))
        for before, name in zip(self.names, self.names[1:], strict=False):
            if before == name:
                return name
        return None

    def find(self, name: str) -> int | None:
        index = bisect_left(self.names, name + ITEM_SUFFIX, key=lambda known: known + ITEM_SUFFIX)
        return index if index < len(self.names) and self.names[index] == name else None


_Namespaces = dict[str, _Items]


class ArchiveIndex:
    """The items of one backup and where their JSON lies in the spool. Close it.

    Make one with `open`; it is a context manager. Reading is safe from several tasks and threads.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._items: dict[str, dict[str, _Namespaces]] = {}
        self.format_version: str | None = None
        """Content of `metadata/version`, None when absent; never a reason to refuse. (docs/spec: RST 6)"""
        self.has_resources_dir = False
        self.warnings: list[str] = []
        """Harmless oddities: stray files, links, devices. At most a hundred are kept."""

    @classmethod
    async def open(
        cls,
        tar_gz_path: Path,
        spool_dir: Path,
        *,
        with_versions: bool = False,
        with_other_versions: bool = False,
        limits: ArchiveLimits | None = None,
    ) -> Self:
        """Decompress and index an archive, in a worker thread.

        Args:
            tar_gz_path: the backup's contents as stored.
            spool_dir: an existing directory with room for the uncompressed items.
            with_versions: keep the copies under version directories too; without it only the copies of the
                preferred version are kept, which halves the spool.
            with_other_versions: keep those of the copies whose version is not the preferred one.

        Raises:
            ArchiveError: the archive is damaged, cut off, hostile, or beyond the limits.
        """
        stop = threading.Event()
        kept = _Copies(preferred=with_versions, others=with_versions or with_other_versions)
        work = asyncio.create_task(
            asyncio.to_thread(cls._read, tar_gz_path, spool_dir, kept, limits or ArchiveLimits(), stop)
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The thread sees the flag at its next chunk; its spool must be closed before this method ends.
            stop.set()
            (outcome,) = await asyncio.gather(work, return_exceptions=True)
            if isinstance(outcome, cls):
                outcome.close()
            raise

    @classmethod
    def _read(
        cls, path: Path, spool_dir: Path, kept: _Copies, limits: ArchiveLimits, stop: threading.Event
    ) -> Self:
        index = cls(_open_spool(spool_dir))
        try:
            with path.open("rb") as compressed:
                stream = TarStream(inflate(compressed), limits=limits, compressed=compressed, stop=stop)
                index._collect(stream, kept)
            index._seal()
        except OSError as error:
            index.close()
            raise ArchiveError(f"reading {path.name}: {problem_text(path.parent, error)}") from error
        except BaseException:  # cancellation too: nothing else would close the spool; re-raised unchanged
            index.close()
            raise
        return index

    def _collect(self, stream: TarStream, kept: _Copies) -> None:
        offset = 0
        batch: list[bytes] = []
        batch_bytes = 0
        for member in stream.members():
            items = self._place(member, kept)
            if items is not None:
                batch.append(stream.read())
                batch_bytes += member.size_bytes
                items.offsets.append(offset)
                items.sizes.append(member.size_bytes)
                offset += member.size_bytes
                if batch_bytes >= _SPOOL_BATCH_BYTES:
                    _write_all(self._descriptor, b"".join(batch))
                    batch, batch_bytes = [], 0
            elif (
                member.path == VERSION_FILE
                and member.is_file
                and member.size_bytes <= _MAX_VERSION_FILE_BYTES
            ):
                self.format_version = stream.read().decode("utf-8", "replace").strip()
        _write_all(self._descriptor, b"".join(batch))

    def _place(self, member: Member, kept: _Copies) -> _Items | None:
        """The items that a member's data belongs to; None if it is not kept."""
        path = member.path
        if path.startswith(f"{RESOURCES_DIRECTORY}/"):
            self.has_resources_dir = True
        if member.is_directory:
            parts = path.split("/", 2)
            self.has_resources_dir |= parts[0] == RESOURCES_DIRECTORY
            if parts[0] == RESOURCES_DIRECTORY and len(parts) > 1:
                self._items.setdefault(parts[1], {})
            return None
        if not member.is_file:
            self._warn(f"{path}: neither file nor directory, ignored")
            return None
        location = parse_item_path(path)
        if location is None:
            if path != VERSION_FILE:
                self._warn(f"{path}: not part of a backup's layout, ignored")
            return None
        versions = self._items.setdefault(location.group_resource, {})
        namespaces = versions.setdefault(location.version_directory, {})
        if not kept.keeps(location.version_directory):
            return None
        items = namespaces.get(location.namespace)
        if items is None:
            items = namespaces[location.namespace] = _Items()
        items.names.append(location.name)
        return items

    def _seal(self) -> None:
        for resource, versions in self._items.items():
            for version, namespaces in versions.items():
                for namespace, items in namespaces.items():
                    twice = items.seal()
                    if twice is not None:
                        raise ArchiveError(
                            f"{item_path(resource, version, namespace, twice)}: is twice in the archive"
                        )

    def _warn(self, text: str) -> None:
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(text)

    @property
    def resources(self) -> list[str]:
        """The group-resources (`pods`, `deployments.apps`) that have a directory, sorted."""
        return sorted(self._items)

    def version_dirs(self, group_resource: str) -> list[str]:
        """The version directories of a resource (`v1-preferredversion`), sorted; also without versions."""
        return sorted(version for version in self._items.get(group_resource, {}) if version)

    def namespaces(self, group_resource: str, version_dir: str | None = None) -> list[str]:
        """The namespaces with items of a resource, sorted; "" stands for cluster-scoped items."""
        return sorted(self._items.get(group_resource, {}).get(version_dir or "", {}))

    def names(self, group_resource: str, namespace: str, version_dir: str | None = None) -> list[str]:
        """The items' names in bytewise order of their file names."""
        items = self._items.get(group_resource, {}).get(version_dir or "", {}).get(namespace)
        return list(items.names) if items else []

    def has(self, group_resource: str, namespace: str, name: str, version_dir: str | None = None) -> bool:
        """Whether the backup has an item."""
        items = self._items.get(group_resource, {}).get(version_dir or "", {}).get(namespace)
        return items is not None and items.find(name) is not None

    def read(self, group_resource: str, namespace: str, name: str, version_dir: str | None = None) -> bytes:
        """The JSON of an item as stored, not checked.

        Raises:
            MissingItem: no such item, or a version copy of an index opened without versions.
            ArchiveError: it cannot be read, or would take too much memory once it is decoded.
        """
        items = self._items.get(group_resource, {}).get(version_dir or "", {}).get(namespace)
        position = items.find(name) if items else None
        if items is None or position is None:
            scope = f"namespaces/{namespace}" if namespace else "cluster"
            version = f"{version_dir}/" if version_dir else ""
            raise MissingItem(f"{RESOURCES_DIRECTORY}/{group_resource}/{version}{scope}/{name}{ITEM_SUFFIX}")
        try:
            data = os.pread(self._descriptor, items.sizes[position], items.offsets[position])
        except OSError as error:
            raise ArchiveError(f"reading the spool: {error.strerror or error}") from error
        if len(data) != items.sizes[position]:
            raise ArchiveError("reading the spool: it is shorter than it was written")
        check_decodable(data)
        return data

    def namespace_manifest(self, namespace: str) -> bytes | None:
        """The JSON of a Namespace object, or None when the backup holds none."""
        key = (NAMESPACES.group_resource, "", namespace)
        return self.read(*key) if self.has(*key) else None

    def close(self) -> None:
        """Free the spool. Reading afterwards fails; a second close does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open_spool(directory: Path) -> int:
    """A nameless file, readable by this user only: made inside a private directory, both removed at once."""
    try:
        private = tempfile.mkdtemp(prefix="restore-", dir=directory)
        try:
            path = os.path.join(private, "spool")
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.unlink(path)
        finally:
            os.rmdir(private)
    except OSError as error:
        raise ArchiveError(f"making a spool file: {problem_text(directory, error)}") from error
    return descriptor


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
