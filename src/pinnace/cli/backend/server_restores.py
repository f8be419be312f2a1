"""Restores that a server made: their files lie in the location, their Restore objects in a cluster."""

import re
from typing import Final

from pinnace.api.download_request import DownloadTargetKind
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError

_SAYS_WHOSE: Final = re.compile(rb'Starting restore of backup [^/"\s]+/([^"\\\s]+)')
_MOST_BYTES: Final = 64 * 1024
"""Of a log: the line is among its first."""


async def backup_of_restore(store: BackupStore, restore: str) -> str | None:
    """Return the backup that a restore was made from, by its log; None if that does not say."""
    head = b""
    try:
        async with store.read_text(DownloadTargetKind.RESTORE_LOG, restore) as log:
            async for block in log:
                head += block
                if len(head) >= _MOST_BYTES or _SAYS_WHOSE.search(head + b" "):
                    break
    except StorageError:
        return None
    found = _SAYS_WHOSE.search(head[:_MOST_BYTES])
    return found[1].decode(errors="replace") if found else None
