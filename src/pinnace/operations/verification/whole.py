"""One backup of a store verified as a whole, its files and its volume data, for servers and programs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.archive.item_index import Span
from pinnace.browse.checks import Check, CheckResult
from pinnace.browse.errors import MissingFile, NoParts
from pinnace.browse.stored import StoredBackup
from pinnace.browse.verifying import verify
from pinnace.operations.verification.signatures import signature_checks
from pinnace.operations.verification.volumes import VolumeLookup
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.errors import ObjectNotFound, RangesUnsupported


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The files of one backup in a store."""

    store: BackupStore
    name: str

    @asynccontextmanager
    async def stream(self, kind: DownloadTargetKind) -> AsyncIterator[AsyncIterator[bytes]]:
        """See Files.stream."""
        async with _named(self.name, kind), self.store.read_bytes(kind, self.name) as chunks:
            yield chunks

    @asynccontextmanager
    async def part(self, kind: DownloadTargetKind, span: Span) -> AsyncIterator[AsyncIterator[bytes]]:
        """See Files.part."""
        async with (
            _named(self.name, kind),
            self.store.read_range(kind, self.name, span.offset, span.length) as chunks,
        ):
            yield chunks


@asynccontextmanager
async def _named(name: str, kind: DownloadTargetKind) -> AsyncIterator[None]:
    try:
        yield
    except ObjectNotFound as error:
        raise MissingFile(f"backup {name} has no {kind.words}") from error
    except RangesUnsupported as error:
        raise NoParts(str(error)) from error


async def verify_stored(store: BackupStore, name: str, lookup: VolumeLookup, folder: Path) -> list[Check]:
    """Check a backup and look for its volume data.

    Args:
        folder: an existing private folder with room for the tarball.

    Raises:
        StorageError: the location cannot be read now.
        NoRoom: this machine cannot keep the tarball.
    """
    signature = await signature_checks(store, name)
    try:
        metadata = orjson.loads(await store.get_metadata(name))
    except SignatureRefused as error:
        bad = Check(name="metadata", result=CheckResult.BAD, details=error.reason)
        return [*signature, bad]
    except ObjectNotFound:
        return [Check(name="metadata", result=CheckResult.BAD, details="the file is missing")]
    except orjson.JSONDecodeError as error:
        return [Check(name="metadata", result=CheckResult.BAD, details=f"not valid JSON: {error.msg}")]
    if not isinstance(metadata, dict):
        return [Check(name="metadata", result=CheckResult.BAD, details="not an object in JSON")]
    backup = StoredBackup(name, StoreFiles(store, name), folder, _ignore)
    try:
        findings = await verify(backup, metadata)
    finally:
        backup.close()
    return [*signature, *findings, *await lookup.findings(name)]


def _ignore(text: str) -> None:
    """Drop a text that is meant for a terminal."""
