"""What every program that saves volumes can do: the interface of restic and kopia. (docs/adr/050)

Each call opens the repository anew and leaves no process and no private file behind, also when it is
cancelled. The caller holds the locks that an operation needs (see `locks`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.progress import OnProgress
from pinnace.volumes.uploader.share import ReadShare
from pinnace.volumes.uploader.special import SpecialFiles

RESTIC: Final = "restic"
KOPIA: Final = "kopia"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is saved.

    Attributes:
        path: a directory or, for a volume in Block mode, a device.
        name: the path under which the snapshot is listed, which finds the one before of the same volume;
            restic uses `parent` instead.
        tags: put on the snapshot; together they must be unlike those of any other.
        parent: id of an earlier snapshot of the same volume, to save reading what has not changed; kopia
            finds it by itself.
        parallel: how many files are read at once; 0 for the program's own choice.
    """

    path: Path
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    parent: str = ""
    parallel: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What was saved.

    Attributes:
        snapshot: its id; empty if restic found nothing to save.
        total_bytes: what a restore writes.
        new_bytes: what was read and had to be stored, by the program's own count; -1 if it does not tell.
        left_out: the sockets, pipes and devices that were not saved.
    """

    snapshot: str
    total_bytes: int = 0
    new_bytes: int = -1
    left_out: SpecialFiles = field(default_factory=SpecialFiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a snapshot is restored to.

    Attributes:
        path: a directory or, for a volume in Block mode, a device. Nothing in a directory is removed.
        size_bytes: of what is restored, to tell the progress; 0 if it is not known.
        only: leave out what is not below this directory of the snapshot.
        parallel: how many files are written at once; 0 for the program's own choice.
        sparse: write long runs of zeros as holes.
    """

    path: Path
    size_bytes: int = 0
    only: str = ""
    parallel: int = 0
    sparse: bool = False


class Saver(Protocol):
    """Saves volumes. Raises UploaderError."""

    async def save(
        self, repository: Repository, source: Source, *, on_progress: OnProgress | None = None
    ) -> Saved:
        """Save a directory or a device; an incomplete snapshot is removed again."""
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
            DataDamaged: what was found.
        """
        ...

    async def forget(self, repository: Repository, snapshot: str) -> None:
        """Remove a snapshot; one that is gone is success. Maintenance frees its space."""
        ...

    async def unlock(self, repository: Repository) -> None:
        """Remove stale locks, where the program has any."""
        ...

    async def maintain(self, repository: Repository) -> None:
        """Free the space of what no snapshot needs, and keep the repository quick."""
        ...
