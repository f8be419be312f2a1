"""Runs restic's operations: each opens the repository itself, and none leaves a process or a file.

The caller holds the locks that an operation needs (see `locks`). Restoring and saving report their progress
every ten seconds, if it has changed. (docs/spec: PVL 7, 8)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from pinnace.aio.blocking import finish, in_thread
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.volumes.restic import commands
from pinnace.volumes.restic.access import restic_access
from pinnace.volumes.restic.commands import OpenedRepository
from pinnace.volumes.restic.errors import command_failed
from pinnace.volumes.restic.identifiers import repository_name, without_credentials
from pinnace.volumes.restic.output import (
    BackupOutput,
    parse_current_key,
    parse_has_file,
    parse_snapshot_id,
    parse_total_size,
    saved_directories,
)
from pinnace.volumes.uploader import existing_files
from pinnace.volumes.uploader.access import AccessProvider, Repository, write_private
from pinnace.volumes.uploader.comparing import FileComparer, FileComparison
from pinnace.volumes.uploader.errors import (
    AccessError,
    CommandFailed,
    CommandTimeout,
    EmptySnapshot,
    RepositoryExists,
    UnexpectedOutput,
    Unsupported,
    UploaderError,
    may_have_saved,
)
from pinnace.volumes.uploader.existing_files import SavedDirectory
from pinnace.volumes.uploader.interface import Saved, Source, Target, are_of_one_volume
from pinnace.volumes.uploader.output import ByteCounts, Tail, snapshot_ids
from pinnace.volumes.uploader.processes import (
    ANSWER_BYTES,
    LIST_BYTES,
    LONG_SECONDS,
    QUICK_SECONDS,
    STDERR_BYTES,
    TRANSFER_SECONDS,
    UNDO_SECONDS,
    Arguments,
    OutputConsumer,
    Outputs,
    run,
)
from pinnace.volumes.uploader.progress import MeasuredProgress, OnProgress, PrintedProgress, reporting
from pinnace.volumes.uploader.share import ReadShare
from pinnace.volumes.uploader.survey import BY_RESTIC, Survey, survey

log = logging.getLogger(__name__)

_TEXT_BYTES: Final = 8192
_INCOMPLETE: Final = 3
"""restic's exit code when some files could not be read; the snapshot is made all the same."""


class Restic:
    """Runs restic.

    Args:
        program: what to run; looked for on the PATH.
    """

    def __init__(
        self,
        accesses: AccessProvider,
        *,
        program: str = "restic",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._accesses = accesses
        self._program = program
        self._clock = clock
        self._version_flag: bool | None = None

    async def connect(self, repository: Repository) -> None:
        """Open the repository with the password. Raises UploaderError, RepositoryMissing among them."""
        await self._do(repository, commands.connect(), QUICK_SECONDS)

    async def init(self, repository: Repository) -> None:
        """Make the repository; one that is there already is opened instead. Raises UploaderError."""
        if self._version_flag is None:
            self._version_flag = commands.knows_repository_version(await self._version())
        try:
            await self._do(repository, commands.init(version_flag=self._version_flag), QUICK_SECONDS)
        except RepositoryExists:
            # Another process created it, or the store did not answer when it was looked for.
            await self.connect(repository)

    async def add_password(self, repository: Repository, password: bytes) -> None:
        """As in `Uploader`: a key more. Raises UploaderError."""
        async with restic_access(self._accesses, repository) as access:
            assert access.password_file is not None
            if password == await in_thread(access.password_file.read_bytes):
                return
            file = access.password_file.with_name("new-password")
            try:
                await in_thread(write_private, file, password)
            except OSError as error:
                raise AccessError(f"cannot write the new password: {error.strerror}") from error
            await self._run(access, commands.add_password(file), Tail(_TEXT_BYTES), QUICK_SECONDS)

    async def password_id(self, repository: Repository) -> str:
        """As in `Uploader`: the id of the key. Raises UploaderError."""
        async with restic_access(self._accesses, repository) as access:
            output = Tail(ANSWER_BYTES)
            await self._run(access, commands.list_keys(), output, QUICK_SECONDS)
            return parse_current_key(output.data)

    async def remove_password(self, repository: Repository, password_id: str) -> None:
        """As in `Uploader`: remove the key. Raises UploaderError."""
        await self._do(repository, commands.remove_key(password_id), QUICK_SECONDS)

    async def unlock(self, repository: Repository) -> None:
        """Remove stale locks, by restic's own rule. Raises UploaderError."""
        await self._do(repository, commands.unlock(), QUICK_SECONDS)

    async def prune(self, repository: Repository) -> None:
        """Free the space of data that no snapshot needs. Raises UploaderError."""
        await self._do(repository, commands.prune(), LONG_SECONDS)

    async def forget(self, repository: Repository, snapshot: str) -> None:
        """Remove a snapshot; one that is gone is success. Raises UploaderError."""
        await self._do(repository, commands.forget(snapshot), LONG_SECONDS)

    async def forget_tagged(self, repository: Repository, tags: Mapping[str, str]) -> None:
        """As in `Saver`. Raises UploaderError."""
        async with restic_access(self._accesses, repository) as access:
            await self._forget_tagged(access, tags)

    async def back_up(
        self,
        repository: Repository,
        directory: Path,
        tags: Mapping[str, str],
        *,
        parent: str = "",
        reads_all: bool = False,
        on_progress: OnProgress | None = None,
    ) -> str:
        """Save the content of a directory.

        An incomplete snapshot is removed again, as no object would refer to it.

        Args:
            tags: put on the snapshot; together they must be unlike those of any other.
            parent: id of an earlier snapshot of the same volume, to save reading what has not changed.
            reads_all: whether files that look unchanged are read, too.

        Returns:
            The id of the snapshot; empty if the directory holds nothing.

        Raises:
            UploaderError: nothing was saved.
        """
        async with restic_access(self._accesses, repository) as access:
            output = BackupOutput()
            command = commands.backup(tags, parent=parent, reads_all=reads_all)
            try:
                async with reporting(PrintedProgress(output.progress), on_progress, self._clock):
                    await self._run(access, command, output, TRANSFER_SECONDS, directory=directory)
                final = output.final_progress()
                if on_progress is not None:
                    await on_progress(final)
            except EmptySnapshot:
                return ""
            except asyncio.CancelledError:
                if snapshot := output.snapshot_id():
                    undoing = self._undo(access, snapshot, tags)
                    with suppress(TimeoutError):
                        await finish(undoing, limit_seconds=UNDO_SECONDS)
                raise
            except UploaderError as error:
                is_incomplete = isinstance(error, CommandFailed) and error.exit_code == _INCOMPLETE
                if is_incomplete or may_have_saved(error):
                    await self._undo(access, output.snapshot_id(), tags)
                raise
            if snapshot := output.snapshot_id():
                return snapshot
            try:
                return await self._find_snapshot(access, tags)
            except UploaderError as error:
                raise UnexpectedOutput(f"error getting snapshot id: {error}") from error

    async def save(
        self, repository: Repository, source: Source, *, on_progress: OnProgress | None = None
    ) -> Saved:
        """As in `Uploader`. Raises UploaderError."""
        if await in_thread(source.path.is_block_device):
            raise Unsupported("restic cannot save volumes in Block mode; kopia can")
        lacks = await self._lacks(await survey(source.path, BY_RESTIC))
        snapshot = await self.back_up(
            repository,
            source.path,
            source.tags,
            parent=source.parent,
            reads_all=source.reads_all,
            on_progress=on_progress,
        )
        return Saved(snapshot=snapshot, lacks=lacks if snapshot else "")

    async def fill(
        self,
        repository: Repository,
        snapshot: str,
        target: Target,
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Write the content of a snapshot over a directory.

        What is in its way is removed first, other files on request only.

        Raises:
            UploaderError: the directory may hold a part.
        """
        if await in_thread(target.path.is_block_device):
            raise Unsupported("restic cannot restore volumes in Block mode; kopia can")
        root = target.path / target.only
        keeps = target.keep_unchanged and commands.keeps_unchanged(await self._version())
        async with restic_access(self._accesses, repository) as access:
            holds_something = await existing_files.holds_something(root)
            if holds_something:
                await self._compare(access, snapshot, target, existing_files.make_way)
            command = commands.restore(snapshot, only=target.only, keep_unchanged=keeps)
            total = target.size_bytes or await self._snapshot_size(access, snapshot)
            if on_progress is not None:
                await on_progress(ByteCounts(total_bytes=total, bytes_done=0))
            async with reporting(MeasuredProgress(target.path, total), on_progress, self._clock):
                output = Tail(_TEXT_BYTES)
                await self._run(access, command, output, TRANSFER_SECONDS, directory=target.path)
            if holds_something and target.delete_extra:
                await self._compare(access, snapshot, target, existing_files.remove_extra)
            if on_progress is not None:
                await on_progress(ByteCounts(total_bytes=total, bytes_done=total))

    async def compare(self, repository: Repository, snapshot: str, target: Target) -> FileComparison:
        """As in `Uploader`. Raises UploaderError."""
        comparer = FileComparer(delete_extra=target.delete_extra)
        keeps = target.keep_unchanged and commands.keeps_unchanged(await self._version())
        async with restic_access(self._accesses, repository) as access:
            await self._compare(access, snapshot, target, comparer.compare, with_state=True)
        return comparer.result(rewrites_same=not keeps)

    async def _compare(
        self,
        access: OpenedRepository,
        snapshot: str,
        target: Target,
        work: Callable[[Path, Iterable[SavedDirectory]], Awaitable[None]],
        *,
        with_state: bool = False,
    ) -> None:
        """Go through all directories of a snapshot, and do the work in those of the target. UploaderError."""
        private = access.password_file.parent if access.password_file is not None else None
        with TemporaryFile(dir=private) as printed:
            await self._run(access, commands.list_files(snapshot), printed.raw, LONG_SECONDS)
            printed.seek(0)
            found = saved_directories(printed, target.only, with_state=with_state)
            await work(target.path / target.only, found)

    async def maintain(self, repository: Repository) -> None:
        """As in `Uploader`: free the space of data that no snapshot needs. Raises UploaderError."""
        await self.prune(repository)

    async def snapshot_ids(self, repository: Repository) -> frozenset[str]:
        """The full ids of all snapshots in a repository. Raises UploaderError."""
        async with restic_access(self._accesses, repository) as access:
            output = Tail(LIST_BYTES)
            await self._run(access, commands.list_snapshots(), output, LONG_SECONDS)
            return snapshot_ids(output.data, "restic")

    async def check(self, repository: Repository, snapshots: Collection[str], share: ReadShare) -> None:
        """As in `Uploader`: the whole repository. Raises UploaderError, DataDamaged among them."""
        await self._do(repository, commands.check(share), LONG_SECONDS)

    async def has_file(self, repository: Repository, snapshot: str, name: str) -> bool:
        """Whether a snapshot has a file of that name at its root. Raises UploaderError."""
        async with restic_access(self._accesses, repository) as access:
            output = Tail(ANSWER_BYTES)
            await self._run(access, commands.find_file(snapshot, name), output, QUICK_SECONDS)
            return parse_has_file(output.data, name)

    async def _lacks(self, found: Survey) -> str:
        """A text about the files that were not saved, or not as they are; empty if there are none."""
        parts = []
        if found.special.count:
            parts.append(f"sockets of the volume were not saved, as restic keeps none: {found.special}")
        if found.retargeted.count and not commands.keeps_link_targets(await self._version()):
            parts.append(
                "links whose targets are not UTF-8 come back with other targets, as restic keeps UTF-8 only"
                f" before version 0.16: {found.retargeted}"
            )
        return "; ".join(parts)

    async def _snapshot_size(self, access: OpenedRepository, snapshot: str) -> int:
        """The size of a snapshot when restored. It costs a run of restic through all directories."""
        command, output = commands.stats(snapshot), Tail(ANSWER_BYTES)
        try:
            await self._run(access, command, output, LONG_SECONDS)
            return parse_total_size(output.data)
        except UploaderError as error:
            raise UnexpectedOutput(f"error getting snapshot size: {error}") from error

    async def _find_snapshot(self, access: OpenedRepository, tags: Mapping[str, str]) -> str:
        """The id of a snapshot that restic did not print. It costs another run of restic."""
        output = Tail(ANSWER_BYTES)
        await self._run(access, commands.find_snapshot(tags), output, QUICK_SECONDS)
        return parse_snapshot_id(output.data)

    async def _undo(self, access: OpenedRepository, snapshot: str, tags: Mapping[str, str]) -> None:
        """Remove the snapshot of a backup that failed; a failure is only logged. (docs/spec: PVL-073)

        Args:
            snapshot: empty if restic did not print it, as old versions do not: it is then found by its tags.
        """
        try:
            if snapshot:
                await self._run(access, commands.forget(snapshot), Tail(_TEXT_BYTES), LONG_SECONDS)
            else:
                await self._forget_tagged(access, tags)
        except UploaderError as error:
            log.warning(
                "A snapshot that no object refers to may stay in the repository",
                extra={"fields": {"snapshot": snapshot or dict(tags), "error": error}},
            )

    async def _forget_tagged(self, access: OpenedRepository, tags: Mapping[str, str]) -> None:
        if not are_of_one_volume(tags):
            return
        output = Tail(LIST_BYTES)
        await self._run(access, commands.find_snapshots(tags), output, LONG_SECONDS)
        for snapshot in sorted(snapshot_ids(output.data, "restic")):
            await self._run(access, commands.forget(snapshot), Tail(_TEXT_BYTES), LONG_SECONDS)

    async def _do(self, repository: Repository, arguments: Arguments, deadline_seconds: float) -> None:
        async with restic_access(self._accesses, repository) as access:
            await self._run(access, arguments, Tail(_TEXT_BYTES), deadline_seconds)

    async def _run(
        self,
        access: OpenedRepository,
        arguments: Arguments,
        stdout: Tail | BackupOutput | RawIOBase,
        deadline_seconds: float,
        *,
        directory: Path | None = None,
    ) -> None:
        shown = commands.shown_line(arguments, access, program=self._program)
        line = commands.command_line(arguments, access, program=self._program)
        code, stderr = await self._child(shown, line, stdout, access.environment, deadline_seconds, directory)
        said = "" if isinstance(stdout, RawIOBase) else without_credentials(stdout.text)
        log.debug(
            "Ran restic",
            extra={
                "fields": {
                    "repository": repository_name(access.identifier),
                    "command": shown,
                    "stdout": said,
                    "stderr": stderr,
                }
            },
        )
        if code != 0:
            raise command_failed(shown, exit_code=code, stdout=said, stderr=stderr)

    async def _child(
        self,
        shown: str,
        line: list[str],
        stdout: OutputConsumer | RawIOBase,
        environment: Mapping[str, str],
        deadline_seconds: float,
        directory: Path | None,
    ) -> tuple[int, str]:
        stderr = Tail(STDERR_BYTES)
        try:
            code = await run(
                line,
                environment=environment,
                outputs=Outputs(stdout, stderr),
                deadline_seconds=deadline_seconds,
                directory=directory,
            )
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise CommandTimeout(shown, deadline_seconds) from error
            reason = f"cannot start {self._program}: {error.strerror}"
            raise CommandFailed(shown, exit_code=None, reason=reason) from error
        return code, without_credentials(stderr.text)

    async def _version(self) -> str:
        """What `restic version` prints."""
        line, output = [self._program, "version"], Tail(_TEXT_BYTES)
        await self._child(" ".join(line), line, output, self._accesses.inherited, QUICK_SECONDS, None)
        return output.text
