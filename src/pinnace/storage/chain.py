"""Looks whether signed backups that others name are still there, were removed by us, or have vanished."""

import enum
from collections.abc import Sequence
from typing import Final

import msgspec

from pinnace.signing.envelope import MOST_ENVELOPE_BYTES
from pinnace.signing.errors import SigningError
from pinnace.storage.backup_reading import BackupReading
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.errors import ObjectNotFound, UnreadableObject
from pinnace.storage.interface import read_all
from pinnace.storage.manifest import read_removal
from pinnace.storage.newest import MOST_NEWEST, Link, unique_links

_MOST_LINKS: Final = 2 * MOST_NEWEST


class LinkState(enum.Enum):
    """What became of a signed backup."""

    PRESENT = "present"
    REMOVED = "removed"
    """There is a signed note of its removal."""
    RETURNED = "returned"
    """It is there, and there is a signed note of its removal: a deletion that is not done, or an old copy."""
    REPLACED = "replaced"
    """The location has another backup of its name, and no note of its removal."""
    VANISHED = "vanished"
    """It is gone, and nobody with the signing key has removed it."""


class LinkFinding(msgspec.Struct, frozen=True):
    """A signed backup and what became of it.

    Attributes:
        removal: when and why it was removed, if it was.
    """

    link: Link
    state: LinkState
    removal: str = ""


class BackupChain(BackupReading):
    """The signed backups of a location as a chain."""

    async def names_in(self, backup: str) -> list[str]:
        """The names of the files in a backup's directory, with the folder of those that are parked."""
        directory = self._layout.backup_directory(backup)
        return sorted(key.removeprefix(directory) for key in await self._store.list_keys(directory))

    async def has_manifest(self, backup: str) -> bool:
        """Whether there is a manifest, whoever has signed it."""
        return await self._store.exists(self._layout.backup_manifest(backup))

    @property
    def trusts_keys(self) -> bool:
        """Whether there is a key whose signatures are believed."""
        return bool(self._signatures.trusted)

    def is_beside(self, backup: str, name: str) -> bool:
        """Whether a file is no part of what the manifest lists."""
        return self._layout.signs_for_itself(backup, self._layout.backup_directory(backup) + name)

    async def check_file(self, backup: str, name: str) -> None:
        """Read a file of a signed backup. Raises SignatureRefused if it is not as it was signed."""
        async with self._files.open(self._layout.backup_directory(backup) + name, at_once=True) as stream:
            async for _ in stream:
                pass

    async def noted_newest(self) -> Sequence[Link]:
        """The newest signed backups: as a server has noted them, and as the location has them."""
        links = list(self.newest_outside)
        for key in self._signatures.trusted:
            links += await self._newest_of(key)
        return unique_links(links)[:_MOST_LINKS]

    async def vanished(self) -> list[Link]:
        """The newest signed backups that are gone or replaced, though nobody with the key has removed them.

        Raises:
            StorageError: the location cannot be read now.
        """
        if not self.trusts_keys:
            return []
        found = [await self.look_for(link) for link in await self.noted_newest()]
        return [each.link for each in found if each.state in (LinkState.VANISHED, LinkState.REPLACED)]

    async def look_for(self, link: Link) -> LinkFinding:
        """What became of a signed backup. Raises StorageError: the location cannot be read now."""
        removal = await self._removal(link)
        try:
            manifest = await self.manifest(link.backup)
        except (SignatureRefused, ObjectNotFound):
            manifest = None
        if manifest is not None and manifest.digest == link.sha256:
            state = LinkState.RETURNED if removal else LinkState.PRESENT
        elif removal:
            state = LinkState.REMOVED
        else:
            is_there = manifest is not None or await self.exists(link.backup)
            state = LinkState.REPLACED if is_there else LinkState.VANISHED
        return LinkFinding(link, state, removal)

    async def _removal(self, link: Link) -> str:
        """When and why a backup was removed; empty if nobody has signed a note of it."""
        key = self._layout.removal_note(link.sha256)
        try:
            note = await read_all(self._store, key, limit_bytes=MOST_ENVELOPE_BYTES)
            said = read_removal(note, self._signatures.trusted, link)
        except (ObjectNotFound, UnreadableObject, SigningError):
            return ""
        return f"{said.get('removed', 'at an unknown time')} ({said.get('reason', 'unknown')})"
