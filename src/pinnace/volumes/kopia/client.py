"""Runs kopia's operations: each opens the repository itself, and none leaves a process or a private file.

The caller holds the locks that an operation needs (see `uploader.locks`). Restoring and saving report their
progress every ten seconds, if it has changed. (docs/spec: KOP)
"""

import asyncio
import base64
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from pinnace.aio.blocking import finish, in_thread
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.values.counts import counted
from pinnace.storage.errors import StorageError
from pinnace.storage.open import open_object_store, store_config
from pinnace.storage.uploader_store import KopiaSecrets, KopiaStorage
from pinnace.volumes.kopia import commands
from pinnace.volumes.kopia.access import Access, config_file, kopia_access
from pinnace.volumes.kopia.devices import opened, streaming
from pinnace.volumes.kopia.directories import saved_directories
from pinnace.volumes.kopia.format_blobs import FormatBlobs, stored_blobs
from pinnace.volumes.kopia.output import (
    Messages,
    Snapshot,
    command_failed,
    extends_locks,
    full_hours,
    full_is_due,
    image_bytes,
    is_image,
    parse_left,
    parse_listing,
    parse_owner,
    parse_policy_fits,
    parse_root,
    parse_snapshot,
    parse_unique_id,
)
from pinnace.volumes.kopia.places import hold_of, repository_prefix
from pinnace.volumes.kopia.times import BATCH, Directory, Listings, batches, is_content, set_times
from pinnace.volumes.uploader import existing_files
from pinnace.volumes.uploader.access import AccessProvider, Repository, write_private
from pinnace.volumes.uploader.comparing import FileComparer, FileComparison
from pinnace.volumes.uploader.errors import (
    AccessError,
    CommandFailed,
    CommandTimeout,
    FilesUnreadable,
    RepositoryExists,
    RepositoryMissing,
    RepositoryUnusable,
    SnapshotMissing,
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
    Outputs,
    run,
)
from pinnace.volumes.uploader.progress import OnProgress, PrintedProgress, reporting
from pinnace.volumes.uploader.share import ReadShare
from pinnace.volumes.uploader.survey import BY_KOPIA, PLACEHOLDER_SUFFIX, Survey, survey

log = logging.getLogger(__name__)

UNIQUE_ID_BLOB: Final = "udmrepo.Repository"
"""Velero 1.18 regards a repository without this blob as not initialised. (docs/spec: KOP-004)"""

_COPY_OF_BUCKET: Final = (
    "the repository was copied out of a bucket, and kopia cannot use such a copy in a folder: put it into an"
    " object store"
)


@dataclass(frozen=True, slots=True)
class Kopia:
    """Runs kopia.

    Args:
        program: what to run; looked for on the PATH.
    """

    accesses: AccessProvider
    _: KW_ONLY
    program: str = "kopia"
    clock: Clock = SYSTEM_CLOCK

    async def connect(self, repository: Repository) -> None:
        """Open the repository with the password. Raises UploaderError, RepositoryMissing among them."""
        async with kopia_access(self.accesses, repository) as access:
            await self._ask(access, commands.status(), QUICK_SECONDS)

    async def init(self, repository: Repository) -> None:
        """Make the repository; one that is there already is opened instead.

        Nothing is made where other data is under its prefix, such as a damaged repository.

        Raises:
            UploaderError: it was not made.
        """
        async with kopia_access(self.accesses, repository) as access:
            flags = access.storage.create_flags(access.secrets, access.ca_file)
            held = hold_of(access.opened.location)
            if held is not None:
                flags += commands.retention_flags(held.mode, held.hours)
            create = commands.create(access.storage, flags)
            try:
                await self._run(access, create, Tail(ANSWER_BYTES), QUICK_SECONDS)
            except RepositoryExists as error:
                await self._open_existing(access, error)
                return
            await self._prepare(access)
            if held is not None:
                await self._ask(access, commands.extend_locks(), QUICK_SECONDS)
            status = await self._ask(access, commands.status(), QUICK_SECONDS)
            await self._write_unique_id(access, parse_unique_id(status))

    async def add_password(self, repository: Repository, password: bytes) -> None:
        """As in `Uploader`; the former password does not open the repository afterwards.

        Raises:
            UploaderError
        """
        async with (
            kopia_access(self.accesses, repository) as access,
            stored_blobs(access) as stored,
        ):
            await self._ask(access, commands.status(), QUICK_SECONDS)
            await stored.settle()
            if access.opened.password == password:
                return
            before = await stored.read()
            await stored.exchange(before, await self._rewritten(access, before, password))

    async def password_id(self, repository: Repository) -> str:
        """As in `Uploader`: a repository of kopia has one password."""
        return ""

    async def remove_password(self, repository: Repository, password_id: str) -> None:
        """Do nothing: there is no other password."""

    async def unlock(self, repository: Repository) -> None:
        """Do nothing: repositories of kopia have no locks."""

    async def save(
        self, repository: Repository, source: Source, *, on_progress: OnProgress | None = None
    ) -> Saved:
        """Save the content of a directory or a device; an incomplete snapshot is removed again.

        Raises:
            FilesUnreadable: files of the volume could not be read.
            Unsupported: two files would get the same name.
            UploaderError: nothing was saved.
        """
        async with AsyncExitStack() as stack:
            access = await stack.enter_async_context(kopia_access(self.accesses, repository))
            await self._prepare(access)
            device, found = None, Survey()
            if await in_thread(source.path.is_block_device):
                device = stack.enter_context(await opened(source.path, "rb"))
            else:
                found = await _surveyed(source.path)
            command = commands.save(
                source.path,
                name=source.name,
                tags=source.tags,
                parallel=source.parallel,
                block=device is not None,
                reads_all=source.reads_all,
            )
            messages, output = Messages(STDERR_BYTES), Tail(ANSWER_BYTES)
            try:
                async with reporting(PrintedProgress(messages.progress), on_progress, self.clock):
                    outputs = Outputs(output, messages, stdin=device)
                    await self._call(access, command, outputs, TRANSFER_SECONDS)
                made = parse_snapshot(output.data)
                self._check_whole(command, access, made)
                if on_progress is not None:
                    await on_progress(ByteCounts(total_bytes=made.total_bytes, bytes_done=made.total_bytes))
            except asyncio.CancelledError:
                with suppress(TimeoutError):
                    await finish(self._undo(access, output.data), limit_seconds=UNDO_SECONDS)
                raise
            except UploaderError as error:
                await self._undo(access, output.data, source.tags if may_have_saved(error) else None)
                if isinstance(error, CommandFailed) and (unreadable := _unreadable(error, output.data)):
                    raise unreadable from error
                raise
        return Saved(
            snapshot=made.id,
            total_bytes=made.total_bytes,
            new_bytes=messages.new_bytes(),
            lacks=_lacks(found),
        )

    async def fill(
        self,
        repository: Repository,
        snapshot: str,
        target: Target,
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Write the content of a snapshot over a directory or a device.

        What is in its way in a directory is removed first, other files on request only.

        Raises:
            UploaderError: the target may hold a part.
        """
        total = target.size_bytes
        async with kopia_access(self.accesses, repository) as access:
            if on_progress is not None:
                await on_progress(ByteCounts(total_bytes=total, bytes_done=0))
            manifest = await self._ask(access, commands.manifest(snapshot), QUICK_SECONDS)
            if await in_thread(target.path.is_block_device):
                done = await self._fill_device(access, manifest, snapshot, target.path, on_progress)
            elif is_image(manifest):
                raise _image_for_files(snapshot, target)
            else:
                holds_something = await existing_files.holds_something(target.path)
                if holds_something:
                    await self._compare(access, manifest, target, existing_files.make_way)
                command = commands.restore(
                    snapshot,
                    target.path,
                    only=target.only,
                    parallel=target.parallel,
                    sparse=target.sparse,
                    keep_unchanged=target.keep_unchanged,
                )
                messages = Messages(STDERR_BYTES)
                async with reporting(PrintedProgress(messages.progress), on_progress, self.clock):
                    outputs = Outputs(Tail(STDERR_BYTES), messages)
                    await self._call(access, command, outputs, TRANSFER_SECONDS)
                done = messages.progress()
                if holds_something and target.delete_extra:
                    await self._compare(access, manifest, target, existing_files.remove_extra)
                await self._correct_times(access, manifest, snapshot, target)
        if on_progress is not None:
            written = total or (done.bytes_done if done is not None else 0)
            await on_progress(ByteCounts(total_bytes=written, bytes_done=written))

    async def has_file(self, repository: Repository, snapshot: str, name: str) -> bool:
        """Whether a snapshot has a file of that name at its root. Raises UploaderError."""
        async with kopia_access(self.accesses, repository) as access:
            listed = parse_listing(await self._ask(access, commands.listing(snapshot), QUICK_SECONDS))
            return any(entry.is_file and entry.name == name for entry in listed)

    async def compare(self, repository: Repository, snapshot: str, target: Target) -> FileComparison:
        """As in `Uploader`. Raises UploaderError."""
        comparer = FileComparer(delete_extra=target.delete_extra)
        async with kopia_access(self.accesses, repository) as access:
            manifest = await self._ask(access, commands.manifest(snapshot), QUICK_SECONDS)
            if is_image(manifest):
                raise _image_for_files(snapshot, target)
            await self._compare(access, manifest, target, comparer.compare)
        return comparer.result(rewrites_same=not target.keep_unchanged)

    async def snapshot_ids(self, repository: Repository) -> frozenset[str]:
        """The ids of all snapshots in a repository. Raises UploaderError."""
        async with kopia_access(self.accesses, repository) as access:
            output = Tail(LIST_BYTES)
            await self._run(access, commands.snapshots(), output, LONG_SECONDS)
            return snapshot_ids(output.data, "kopia")

    async def check(self, repository: Repository, snapshots: Collection[str], share: ReadShare) -> None:
        """As in `Uploader`: the files of these snapshots. Raises UploaderError, DataDamaged among them."""
        if not snapshots:
            return  # without ids kopia would check all snapshots
        async with kopia_access(self.accesses, repository, keep_cache=False) as access:
            command = commands.verify(snapshots, share.percent)
            await self._run(access, command, Tail(STDERR_BYTES), LONG_SECONDS)

    async def forget(self, repository: Repository, snapshot: str) -> None:
        """Remove a snapshot; one that is gone is success. Raises UploaderError."""
        async with kopia_access(self.accesses, repository) as access:
            await self._forget(access, snapshot)

    async def forget_tagged(self, repository: Repository, tags: Mapping[str, str]) -> None:
        """As in `Saver`. Raises UploaderError."""
        async with kopia_access(self.accesses, repository) as access:
            await self._forget_tagged(access, tags)

    async def maintain(self, repository: Repository) -> None:
        """Run quick maintenance and, if it is due, full maintenance.

        Raises:
            Unsupported: the maintenance has another owner.
            UploaderError: it was not done.
        """
        async with kopia_access(self.accesses, repository) as access:
            info = await self._ask(access, commands.maintenance(), QUICK_SECONDS)
            owner = parse_owner(info)
            if not owner:
                await self._ask(access, commands.own_maintenance(), QUICK_SECONDS)
            elif owner != commands.IDENTITY:
                raise Unsupported(f"the maintenance of the repository belongs to {owner}, which must run it")
            held = hold_of(access.opened.location)
            if held is not None and not extends_locks(info):
                # It was made before its location asked for it, or by Velero.
                await self._ask(access, commands.hold(held.mode, held.hours), QUICK_SECONDS)
                await self._ask(access, commands.extend_locks(), QUICK_SECONDS)
            wanted = access.settings.full_hours
            if wanted and wanted != full_hours(info):
                await self._ask(access, commands.full_maintenance_interval(wanted), QUICK_SECONDS)
                info = await self._ask(access, commands.maintenance(), QUICK_SECONDS)
            await self._ask(access, commands.maintain(full=False), LONG_SECONDS)
            if full_is_due(info, self.clock.now()):
                await self._forget_left(access)
                await self._ask(access, commands.maintain(full=True), LONG_SECONDS)

    async def _fill_device(
        self, access: Access, manifest: bytes, snapshot: str, path: Path, on_progress: OnProgress | None
    ) -> ByteCounts | None:
        """Write the one file of a snapshot to a device; return how much it was."""
        listed = parse_listing(await self._ask(access, commands.listing(snapshot), QUICK_SECONDS))
        size = image_bytes(manifest, snapshot, listed) if is_image(manifest) else None
        if len(listed) != 1 or not listed[0].is_file:
            raise Unsupported(
                f"snapshot {snapshot} is not of a volume in Block mode, and {path.name} is a device"
            )
        async with (
            streaming(path, size, least_bytes=listed[0].size_bytes if size is None else 0) as stream,
            reporting(PrintedProgress(stream.progress), on_progress, self.clock),
        ):
            outputs = Outputs(stream.pipe, Messages(STDERR_BYTES))
            await self._call(access, commands.show(listed[0].obj), outputs, TRANSFER_SECONDS)
        return stream.progress()

    async def _correct_times(self, access: Access, manifest: bytes, snapshot: str, target: Target) -> None:
        """Give directories and links the times that they had. A failure is only logged: the data is there."""
        failed = 0
        try:
            waiting = await self._top(access, manifest, target)
            while waiting:
                asked, waiting = waiting[-BATCH:], waiting[:-BATCH]
                found = await self._list(access, asked)
                failed += await in_thread(set_times, target.path, found.times)
                waiting += found.below
        except UploaderError as error:
            log.warning(
                "Directories of a restored volume have the time of the newest file in them",
                extra={"fields": {"snapshot": snapshot, "error": error}},
            )
        if failed:
            log.warning(
                "The times of directories and links of a restored volume could not be set",
                extra={"fields": {"snapshot": snapshot, "number": failed}},
            )

    async def _compare(
        self,
        access: Access,
        manifest: bytes,
        target: Target,
        work: Callable[[Path, Iterable[SavedDirectory]], Awaitable[None]],
    ) -> None:
        """Go through all directories of a snapshot, and do the work in those of the target. UploaderError."""
        waiting = await self._top(access, manifest, target)
        while waiting:
            asked, waiting = waiting[-BATCH:], waiting[:-BATCH]
            for directories in batches(asked):
                below: list[Directory] = []
                with TemporaryFile(dir=access.opened.directory) as printed:
                    outputs = Outputs(printed.raw, Messages(STDERR_BYTES))
                    await self._call(access, _shown(directories), outputs, TRANSFER_SECONDS)
                    printed.seek(0)
                    await work(target.path, saved_directories(printed, directories, below))
                waiting += below

    async def _top(self, access: Access, manifest: bytes, target: Target) -> list[Directory]:
        """The directory of a snapshot that becomes the target; none if it has no such directory."""
        top = [Directory((), parse_root(manifest))]
        if not target.only:
            return top
        found = await self._list(access, top)
        return [Directory((), each.obj) for each in found.below if each.path == (target.only,)]

    async def _list(self, access: Access, asked: Sequence[Directory]) -> Listings:
        """The entries of directories in a snapshot."""
        found = Listings()
        for directories in batches(asked):
            found.expect(directories)
            outputs = Outputs(found, Messages(STDERR_BYTES))
            await self._call(access, _shown(directories), outputs, TRANSFER_SECONDS)
            found.end()
        return found

    async def _open_existing(self, access: Access, found: RepositoryExists) -> None:
        """Open the existing repository. Raises RepositoryUnusable if the data is no repository."""
        try:
            await self._ask(access, commands.status(), QUICK_SECONDS)
        except RepositoryMissing as error:
            raise RepositoryUnusable(
                found.command,
                exit_code=found.exit_code,
                stderr=found.stderr,
                reason="there is data under its prefix that is no repository; look at it, and move it away",
            ) from error

    async def _prepare(self, access: Access) -> None:
        """Set the policy unless the repository has it.

        Velero's own repositories have another, and so has one that was made again since the last call.
        """
        found = await self._ask(access, commands.show_policy(), QUICK_SECONDS)
        if not parse_policy_fits(found, commands.POLICY):
            await in_thread(write_private, access.policy_file, commands.policy())
            await self._ask(access, commands.set_policy(access.policy_file), QUICK_SECONDS)

    def _check_whole(self, arguments: Arguments, access: Access, made: Snapshot) -> None:
        """Refuse a snapshot that is not of the whole volume though kopia succeeded. Raises CommandFailed."""
        if not made.incomplete and not made.failed:
            return
        what = f"it saved only a part of the volume ({made.incomplete}), as it was asked to stop"
        if not made.incomplete:
            what = f"it could not read {counted(made.failed, 'file')}"
        shown = commands.shown_line(arguments, self.program, access.opened.directory)
        raise CommandFailed(shown, exit_code=0, reason=what)

    async def _undo(self, access: Access, output: bytes, tags: Mapping[str, str] | None = None) -> None:
        """Remove the snapshot of a call of `save` that failed, if there is one; a failure is only logged.

        Args:
            tags: of the snapshot, if kopia may have stored it without telling its id.
        """
        try:
            made = parse_snapshot(output)
        except UnexpectedOutput:
            made = None
        try:
            if made is not None:
                await self._forget(access, made.id)
            elif tags:
                await self._forget_tagged(access, tags)
        except UploaderError as failure:
            log.warning(
                "A snapshot that no object refers to may stay in the repository",
                extra={"fields": {"snapshot": made.id if made is not None else tags, "error": failure}},
            )

    async def _forget_tagged(self, access: Access, tags: Mapping[str, str]) -> None:
        if not are_of_one_volume(tags):
            return
        output = Tail(LIST_BYTES)
        await self._run(access, commands.snapshots(tags=tags), output, LONG_SECONDS)
        for snapshot in sorted(snapshot_ids(output.data, "kopia")):
            await self._forget(access, snapshot)

    async def _forget(self, access: Access, snapshot: str) -> None:
        try:
            await self._ask(access, commands.forget(snapshot), LONG_SECONDS)
        except SnapshotMissing:
            return

    async def _forget_left(self, access: Access) -> None:
        """Remove incomplete snapshots of calls that have ended, so that maintenance can free their data."""
        output = Tail(LIST_BYTES)
        await self._run(access, commands.snapshots(incomplete=True), output, LONG_SECONDS)
        before = self.clock.now() - timedelta(seconds=TRANSFER_SECONDS)
        for snapshot in parse_left(output.data, before):
            await self._forget(access, snapshot)

    async def _rewritten(self, access: Access, blobs: FormatBlobs, password: bytes) -> FormatBlobs:
        """The format blobs for another password, which kopia writes into a private folder."""
        folder = access.opened.directory / "format"
        config = access.opened.directory / "format.config"
        storage = KopiaStorage(kind="filesystem", options={"path": str(folder), "dirShards": []})
        content = config_file(storage, KopiaSecrets(), access.opened.directory / "format-cache", 0)
        new = password.decode("utf-8", "surrogateescape")
        here = {**access.environment, "KOPIA_CONFIG_PATH": str(config), "KOPIA_NEW_PASSWORD": new}
        changing = replace(access, storage=storage, environment=here)
        try:
            await in_thread(blobs.write, folder)
            await in_thread(write_private, config, content)
            await self._ask(changing, commands.change_password(), QUICK_SECONDS)
            checking = replace(changing, environment={**here, "KOPIA_PASSWORD": new})
            await self._ask(checking, commands.status(), QUICK_SECONDS)
            return await in_thread(FormatBlobs.read, folder)
        except OSError as error:
            raise AccessError(f"cannot write the format blobs: {error.strerror}") from error

    async def _write_unique_id(self, access: Access, unique_id: bytes) -> None:
        """Write the blob that marks a repository as initialised for Velero 1.18."""
        opened = access.opened
        location, provider = opened.location, opened.location.spec.provider
        prefix = repository_prefix(location, opened.repository.namespace)
        key = f"{prefix}{UNIQUE_ID_BLOB}{access.storage.blob_suffix}"
        body = json.dumps({"uniqueID": base64.b64encode(unique_id).decode()}).encode()
        try:
            config = store_config(location, credentials_file=opened.credentials)
            config.pop("prefix", None)
            store = open_object_store(provider, config, environ=opened.inherited)
            try:
                await store.put(key, body)
            finally:
                await store.close()
        except StorageError as error:
            raise UnexpectedOutput(f"the blob {UNIQUE_ID_BLOB} could not be written: {error}") from error

    async def _ask(self, access: Access, arguments: Arguments, deadline_seconds: float) -> bytes:
        output = Tail(ANSWER_BYTES)
        await self._run(access, arguments, output, deadline_seconds)
        return output.data

    async def _run(self, access: Access, arguments: Arguments, stdout: Tail, deadline_seconds: float) -> None:
        await self._call(access, arguments, Outputs(stdout, Messages(STDERR_BYTES)), deadline_seconds)

    async def _call(
        self, access: Access, arguments: Arguments, outputs: Outputs, deadline_seconds: float
    ) -> None:
        shown = commands.shown_line(arguments, self.program, access.opened.directory)
        messages = outputs.stderr
        assert isinstance(messages, Messages)
        creates = arguments[:2] == ("repository", "create")
        if access.storage.kind == "filesystem" and not creates:
            await in_thread(_check_folder, access.storage, shown)
        try:
            code = await run(
                commands.command_line(arguments, self.program),
                environment={**access.environment, **(access.creation if creates else {})},
                outputs=outputs,
                deadline_seconds=deadline_seconds,
                directory=access.opened.directory,
            )
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise CommandTimeout(shown, deadline_seconds) from error
            reason = f"cannot start {self.program}: {error.strerror}"
            raise CommandFailed(shown, exit_code=None, reason=reason) from error
        said = messages.text.replace(f"{access.opened.directory}/", "")
        log.debug("Ran kopia", extra={"fields": {"command": shown, "stderr": said}})
        if code != 0:
            raise command_failed(shown, exit_code=code, stderr=said)


def _image_for_files(snapshot: str, target: Target) -> Unsupported:
    return Unsupported(
        f"snapshot {snapshot} is the image of a device that the data mover velero-block made, and"
        f" {target.path.name} is a directory: an image is written to devices only"
    )


def _shown(directories: Sequence[Directory]) -> Arguments:
    """Print what one batch of directories holds."""
    objects = [each.obj for each in directories]
    is_one = len(objects) == 1 and not is_content(objects[0])
    return commands.show(objects[0]) if is_one else commands.contents(objects)


async def _surveyed(path: Path) -> Survey:
    """The files that kopia does not save as they are. Raises Unsupported if a file would be lost."""
    found = await survey(path, BY_KOPIA)
    if found.placeholders.count:
        raise Unsupported(
            f"the volume has files, directories or links whose names end in {PLACEHOLDER_SUFFIX}, which kopia"
            f" takes for placeholders of its own: {found.placeholders}: rename them, or save the volume with"
            " restic"
        )
    if found.merged.count:
        raise Unsupported(
            "the volume has files whose names are not UTF-8 and would become the same name, as kopia keeps"
            f" UTF-8 only: {found.merged}: rename them, or save the volume with restic"
        )
    return found


def _unreadable(error: CommandFailed, output: bytes) -> FilesUnreadable | None:
    """The error that says which files could not be read; None if that is not why kopia failed."""
    try:
        made = parse_snapshot(output)
    except UnexpectedOutput:
        return None
    if not made.failed:
        return None
    more = f" and {made.failed - len(made.errors)} more" if made.failed > len(made.errors) else ""
    return FilesUnreadable(
        error.command,
        exit_code=error.exit_code,
        stderr=f"{'; '.join(made.errors)}{more}",
        reason=f"not readable: {counted(made.failed, 'file')} of the volume",
    )


def _lacks(found: Survey) -> str:
    """A text about the files that were not saved, or not as they are; empty if there are none."""
    parts = []
    if found.special.count:
        parts.append(
            f"sockets, pipes and devices of the volume were not saved, as kopia keeps none: {found.special}"
        )
    if found.renamed.count:
        parts.append(
            "files whose names are not UTF-8 come back under other names, as kopia keeps UTF-8 only:"
            f" {found.renamed}"
        )
    if found.linked.count:
        parts.append(f"hard links come back as files of their own, as kopia keeps none: {found.linked}")
    if found.attributed.count:
        parts.append(
            "extended attributes, which ACLs and capabilities are, do not come back, as kopia keeps none:"
            f" {found.attributed}"
        )
    return "; ".join(parts)


def _check_folder(storage: KopiaStorage, command: str) -> None:
    """Refuse a folder without a repository, as kopia writes into any folder that it opens.

    Raises:
        RepositoryMissing, RepositoryUnusable: there is none, or a copy of one in a bucket.
    """
    folder = Path(storage.options["path"])
    if (folder / "kopia.repository.f").exists():
        return
    if (folder / "kopia.repository").exists():
        raise RepositoryUnusable(command, exit_code=None, reason=_COPY_OF_BUCKET)
    raise RepositoryMissing(command, exit_code=None, reason="there is no repository")
