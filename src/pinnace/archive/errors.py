"""Errors of the archive package.

    ArchiveError            the archive cannot be read or written; the text says why and where
    +-- ArchiveWriteError   writing failed (disk full, bad name); what was written is not a usable archive
    +-- MissingItem         the archive holds no such item

A broken archive is an exception, because nothing that was read from it can be trusted; a strange but
harmless member of a readable archive is data (`ArchiveIndex.warnings`).
"""

from pinnace.notices.codes import Code
from pinnace.notices.notice import Coded


class ArchiveError(Coded, Exception):
    """The archive is broken, hostile, or cannot be read or written."""

    notice_code = Code.ARCHIVE_UNREADABLE


class ArchiveWriteError(ArchiveError):
    """Writing the archive failed; the file must not be taken for a backup."""

    notice_code = Code.ITEM_NOT_SAVED


class MissingItem(ArchiveError):
    """The archive does not hold the item asked for."""

    notice_code = Code.ITEM_UNREADABLE

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: not in the archive")
        self.path = path
