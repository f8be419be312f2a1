"""The interface of the programs that save volumes, restic and kopia. (docs/adr/050)

Each call opens the repository itself and leaves no process and no private file behind, also when it is
cancelled. The caller holds the locks that an operation needs (see `locks`).
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.comparing import FileComparison
from pinnace.volumes.uploader.progress import OnProgress
from pinnace.volumes.uploader.share import ReadShare

RESTIC: Final = "restic"
KOPIA: Final = "kopia"


_VOLUME_TAGS: Final = ("backup-uid", "ns", "volume")
_OWNER_TAGS: Final = ("pod-uid", "pvc-uid")


def are_of_one_volume(tags: Mapping[str, str]) -> bool:
    """Whether only snapshots of one volume in one backup can have all of these tags.

    Snapshots that are found by fewer tags may be data of another backup or volume.
    """
    return all(tags.get(name) for name in _VOLUME_TAGS) and any(tags.get(name) for name in _OWNER_TAGS)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A directory or device to save.

    Attributes:
        path: a directory or, for a volume in Block mode, a device.
        name: the path of the snapshot in listings; it finds the previous snapshot of the same volume. restic
            uses `parent` instead.
        tags: put on the snapshot; together they must be unlike those of any other.
        parent: id of an earlier snapshot of the same volume, to save reading what has not changed; kopia
            finds it by itself.
        parallel: how many files are read at once; 0 for the program's own choice.
        reads_all: whether files that look unchanged are read, too.
    """

    path: Path
    name: str = ""
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    parent: str = ""
    parallel: int = 0
    reads_all: bool = False


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a save.

    Attributes:
        snapshot: its id; empty if restic found nothing to save.
        total_bytes: how many bytes a restore writes.
        new_bytes: how many bytes were new or changed, by the program's count; -1 if it does not print it.
        lacks: a text about files that were not saved, or not as they are; empty if there are none.
    """

    snapshot: str
    total_bytes: int = 0
    new_bytes: int = -1
    lacks: str = ""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A directory or device to restore a snapshot to.

    Attributes:
        path: a directory or, for a volume in Block mode, a device. What a directory holds is written over.
        size_bytes: the size of the snapshot, for the progress; 0 if it is not known.
        only: restore only what is below this directory of the snapshot.
        parallel: how many files are written at once; 0 for the program's own choice.
        sparse: write long runs of zeros as holes.
        keep_unchanged: do not write files that have the size and time of the snapshot; the other ones of a
            directory are written. A program that cannot writes all.
        delete_extra: remove from a directory what the snapshot does not have, when all is written.
    """

    path: Path
    size_bytes: int = 0
    only: str = ""
    parallel: int = 0
    sparse: bool = False
    keep_unchanged: bool = False
    delete_extra: bool = False


class Saver(Protocol):
    """Saves volumes. Raises UploaderError."""

    async def save(
        self, repository: Repository, source: Source, *, on_progress: OnProgress | None = None
    ) -> Saved:
        """Save a directory or a device; a snapshot that is incomplete or not wanted any more is removed."""
        ...

    async def forget(self, repository: Repository, snapshot: str) -> None:
        """Remove a snapshot; one that is gone is success. Maintenance frees its space."""
        ...

    async def forget_tagged(self, repository: Repository, tags: Mapping[str, str]) -> None:
        """Remove all complete snapshots that have all of these tags; none is success.

        Nothing is removed unless the tags are of one volume (`are_of_one_volume`).
        """
        ...


class Filler(Protocol):
    """Restores volumes. Raises UploaderError."""

    async def fill(
        self,
        repository: Repository,
        snapshot: str,
        target: Target,
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Write the content of a snapshot; after an error the target may hold a part."""
        ...

    async def has_file(self, repository: Repository, snapshot: str, name: str) -> bool:
        """Whether a snapshot has a file of that name at its root."""
        ...


class Uploader(Saver, Filler, Protocol):
    """Saves and restores volumes. Every method raises UploaderError."""

    async def compare(self, repository: Repository, snapshot: str, target: Target) -> FileComparison:
        """Say what `fill` would do to the files of a directory, and change nothing."""
        ...

    async def connect(self, repository: Repository) -> None:
        """Open the repository with the password. Raises RepositoryMissing, among others."""
        ...

    async def init(self, repository: Repository) -> None:
        """Make the repository; one that is there already is opened instead."""
        ...

    async def snapshot_ids(self, repository: Repository) -> frozenset[str]:
        """The full ids of all snapshots in a repository."""
        ...

    async def check(self, repository: Repository, snapshots: Collection[str], share: ReadShare) -> None:
        """Check that all data of snapshots is there, and read a share of it.

        kopia checks these snapshots only, and chooses among their files; restic checks the whole repository,
        and chooses among its packs.

        Raises:
            DataDamaged: data is missing or not what was stored.
        """
        ...

    async def add_password(self, repository: Repository, password: bytes) -> None:
        """Let the repository open with a password, too, or instead of the one that opens it now.

        At every moment one of the two opens it. A change that was interrupted is completed by the same call.
        """
        ...

    async def password_id(self, repository: Repository) -> str:
        """The id of the password that opens the repository; empty where that is the only one."""
        ...

    async def remove_password(self, repository: Repository, password_id: str) -> None:
        """Let the repository not open any more with a password, which is not the one that opens it now."""
        ...

    async def unlock(self, repository: Repository) -> None:
        """Remove stale locks, where the program has any."""
        ...

    async def maintain(self, repository: Repository) -> None:
        """Free the space of data that no snapshot needs, and keep the repository quick."""
        ...
