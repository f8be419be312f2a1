"""One Uploader for restic and kopia: a repository is opened by the program that made it. (docs/adr/050)"""

from collections.abc import Collection, Mapping

from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.errors import Unsupported
from pinnace.volumes.uploader.interface import KOPIA, RESTIC, Saved, Source, Target, Uploader
from pinnace.volumes.uploader.progress import OnProgress
from pinnace.volumes.uploader.share import ReadShare

UPLOADERS = (RESTIC, KOPIA)


class Uploaders:
    """An Uploader for the repositories of all programs. Every method raises UploaderError.

    Args:
        programs: by the name in `uploaderType`.
    """

    def __init__(self, programs: Mapping[str, Uploader]) -> None:
        self._programs = programs

    @classmethod
    def of(cls, accesses: AccessProvider) -> "Uploaders":
        """The uploaders restic and kopia, as they are on the PATH."""
        return cls({RESTIC: Restic(accesses), KOPIA: Kopia(accesses)})

    async def connect(self, repository: Repository) -> None:
        """As in `Uploader`."""
        await self._for(repository).connect(repository)

    async def init(self, repository: Repository) -> None:
        """As in `Uploader`."""
        await self._for(repository).init(repository)

    async def save(
        self, repository: Repository, source: Source, *, on_progress: OnProgress | None = None
    ) -> Saved:
        """As in `Uploader`."""
        return await self._for(repository).save(repository, source, on_progress=on_progress)

    async def fill(
        self,
        repository: Repository,
        snapshot: str,
        target: Target,
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        """As in `Uploader`."""
        await self._for(repository).fill(repository, snapshot, target, on_progress=on_progress)

    async def has_file(self, repository: Repository, snapshot: str, name: str) -> bool:
        """As in `Uploader`."""
        return await self._for(repository).has_file(repository, snapshot, name)

    async def snapshot_ids(self, repository: Repository) -> frozenset[str]:
        """As in `Uploader`."""
        return await self._for(repository).snapshot_ids(repository)

    async def check(self, repository: Repository, snapshots: Collection[str], share: ReadShare) -> None:
        """As in `Uploader`."""
        await self._for(repository).check(repository, snapshots, share)

    async def forget(self, repository: Repository, snapshot: str) -> None:
        """As in `Uploader`."""
        await self._for(repository).forget(repository, snapshot)

    async def forget_tagged(self, repository: Repository, tags: Mapping[str, str]) -> None:
        """As in `Uploader`."""
        await self._for(repository).forget_tagged(repository, tags)

    async def unlock(self, repository: Repository) -> None:
        """As in `Uploader`."""
        await self._for(repository).unlock(repository)

    async def maintain(self, repository: Repository) -> None:
        """As in `Uploader`."""
        await self._for(repository).maintain(repository)

    def _for(self, repository: Repository) -> Uploader:
        program = self._programs.get(repository.uploader or RESTIC)
        if program is None:
            raise Unsupported(
                f"the uploader {repository.uploader} is not known: this version has {' and '.join(UPLOADERS)}"
            )
        return program
