"""Errors of looking into backups.

BrowseError            the text says which backup, why, and what to do
+-- MissingFile        the backup lacks a file
|   +-- FileWithheld   it may have it, and the server does not hand out files of that kind
+-- NoParts            the file can only be read as a whole
+-- NoRoom             this machine cannot keep a copy of the file, which says nothing about the backup
+-- IndexUnusable      the index must be left aside; the same work can be done again without it
"""


class BrowseError(Exception):
    """A backup cannot be looked into."""


class MissingFile(BrowseError):
    """The backup has no such file."""


class FileWithheld(MissingFile):
    """The server does not hand out such files; the text says what to do."""


class NoParts(BrowseError):
    """The files of this backup can only be read as a whole."""


class NoRoom(BrowseError):
    """This machine cannot keep a copy of a file. Nothing is known about the backup."""


class IndexUnusable(BrowseError):
    """The index of a backup is damaged, or says something else than the tarball."""

    def __init__(self, backup: str, reason: str) -> None:
        super().__init__(f"backup {backup}: its index cannot be used: {reason}")
        self.backup = backup
        self.reason = reason
