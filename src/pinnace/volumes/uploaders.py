"""One Uploader for restic and kopia: a repository is opened by the program that made it. (docs/adr/050)

A repository that the password does not open is opened by Velero's public default where data is only read or
removed: a new cluster reads the buckets of an old one. Nothing is saved under that password unless it is the
password: whoever can write to the bucket could put such a repository there. (ADR 126)
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeVar

import msgspec

from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.comparing import FileComparison
from pinnace.volumes.uploader.errors import AccessError, PasswordMissing, Unsupported, WrongPassword
from pinnace.volumes.uploader.interface import KOPIA, RESTIC, Saved, Source, Target, Uploader
from pinnace.volumes.uploader.passwords import OWN_PASSWORDS, Password
from pinnace.volumes.uploader.progress import OnProgress
from pinnace.volumes.uploader.share import ReadShare

UPLOADERS = (RESTIC, KOPIA)

Result = TypeVar("Result")


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
        program = self._for(repository)
        await _with_any_password(repository, program.connect)

    async def init(self, repository: Repository) -> None:
        """As in `Uploader`."""
        await self._for(repository).init(repository)

    async def save(
        self, repository: Repository, source: Source, *, on_progress: OnProgress | None = None
    ) -> Saved:
        """As in `Uploader`."""
        program = self._for(repository)
        try:
            return await _with_any_password(
                repository,
                lambda opened: program.save(opened, source, on_progress=on_progress),
                OWN_PASSWORDS,
            )
        except WrongPassword as error:
            await self._explain(program, repository, error)
            raise

    async def fill(
        self,
        repository: Repository,
        snapshot: str,
        target: Target,
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        """As in `Uploader`."""
        program = self._for(repository)
        await _with_any_password(
            repository, lambda opened: program.fill(opened, snapshot, target, on_progress=on_progress)
        )

    async def has_file(self, repository: Repository, snapshot: str, name: str) -> bool:
        """As in `Uploader`."""
        program = self._for(repository)
        return await _with_any_password(repository, lambda opened: program.has_file(opened, snapshot, name))

    async def compare(self, repository: Repository, snapshot: str, target: Target) -> FileComparison:
        """As in `Uploader`."""
        program = self._for(repository)
        return await _with_any_password(repository, lambda opened: program.compare(opened, snapshot, target))

    async def snapshot_ids(self, repository: Repository) -> frozenset[str]:
        """As in `Uploader`."""
        program = self._for(repository)
        return await _with_any_password(repository, program.snapshot_ids)

    async def check(self, repository: Repository, snapshots: Collection[str], share: ReadShare) -> None:
        """As in `Uploader`."""
        program = self._for(repository)
        await _with_any_password(repository, lambda opened: program.check(opened, snapshots, share))

    async def forget(self, repository: Repository, snapshot: str) -> None:
        """As in `Uploader`."""
        program = self._for(repository)
        await _with_any_password(repository, lambda opened: program.forget(opened, snapshot))

    async def forget_tagged(self, repository: Repository, tags: Mapping[str, str]) -> None:
        """As in `Uploader`."""
        program = self._for(repository)
        await _with_any_password(repository, lambda opened: program.forget_tagged(opened, tags))

    async def add_password(self, repository: Repository, password: bytes) -> None:
        """As in `Uploader`."""
        await self._for(repository).add_password(repository, password)

    async def password_id(self, repository: Repository) -> str:
        """As in `Uploader`."""
        return await self._for(repository).password_id(repository)

    async def remove_password(self, repository: Repository, password_id: str) -> None:
        """As in `Uploader`."""
        await self._for(repository).remove_password(repository, password_id)

    async def opens(self, repository: Repository) -> bool:
        """Whether the password opens the repository, and not another one that is tried."""
        try:
            await self._for(repository).connect(repository)
        except WrongPassword:
            return False
        return True

    async def unlock(self, repository: Repository) -> None:
        """As in `Uploader`."""
        program = self._for(repository)
        await _with_any_password(repository, program.unlock)

    async def maintain(self, repository: Repository) -> None:
        """As in `Uploader`."""
        program = self._for(repository)
        await _with_any_password(repository, program.maintain)

    async def _explain(self, program: Uploader, repository: Repository, error: WrongPassword) -> None:
        """Raise a better error if the repository is one with Velero's public password."""
        try:
            await program.connect(msgspec.structs.replace(repository, password=Password.PUBLIC))
        except (WrongPassword, PasswordMissing):
            return
        raise AccessError(
            f"the {repository.uploader} repository of namespace {repository.namespace} in location"
            f" {repository.location} has Velero's public default password, which is not the password here:"
            " its data can be restored, and nothing is saved in it until `pinnace repo change-password` gives"
            " it the password here"
        ) from error

    def _for(self, repository: Repository) -> Uploader:
        program = self._programs.get(repository.uploader or RESTIC)
        if program is None:
            raise Unsupported(
                f"the uploader {repository.uploader} is not known: this version has {' and '.join(UPLOADERS)}"
            )
        return program


async def _with_any_password(
    repository: Repository,
    work: Callable[[Repository], Awaitable[Result]],
    passwords: Iterable[Password] = Password,
) -> Result:
    """Do what opens the repository first, so that a wrong password has changed nothing."""
    try:
        return await work(repository)
    except WrongPassword as error:
        for password in passwords:
            if password is repository.password:
                continue
            try:
                return await work(msgspec.structs.replace(repository, password=password))
            except (WrongPassword, PasswordMissing):
                continue
        raise error
