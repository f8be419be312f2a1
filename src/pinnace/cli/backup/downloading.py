"""Implements `backup download`. (docs/spec: CLI 4.6)"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from pinnace.api.values.shell_words import argument
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.backends import open_backend
from pinnace.cli.backup.download import BackupDownloadOptions
from pinnace.cli.common.reading import downloads, explaining_loss, refuse_unfinished
from pinnace.cli.connect import pasteable, run_async, settings_of
from pinnace.cli.errors import CommandError
from pinnace.cli.kinds import BACKUP
from pinnace.client.interface import Backend, DownloadOptions, fetch


def download(ctx: click.Context, options: BackupDownloadOptions) -> None:
    """Store the tarball of a backup in a private file; a failed download leaves no file."""
    settings, (name,) = settings_of(ctx), options.names
    path = options.output or os.path.join(os.getcwd(), f"{name}-data.tar.gz")
    how = downloads(settings, options, options.timeout.total_seconds())

    # A link is followed, as opening the file would; a device or a folder is left alone.
    target = Path(os.path.realpath(path))
    if (target.exists() or target.is_symlink()) and not (options.force and target.is_file()):
        raise CommandError(f"open {path}: {'file exists' if target.is_file() else 'not a regular file'}")

    async def work() -> None:
        async with open_backend(settings) as backend:
            backup = await backend.object(BACKUP.plural, name)
            if settings.location is None:  # in a location the metadata comes last, whatever it says
                await refuse_unfinished(backend, backup)
            with explaining_loss(BACKUP.noun, backup, "tarball"):
                await write_file(backend, name, target, how)

    run_async(work())
    click.echo(f"Backup {name} has been successfully downloaded to {path}")


async def write_file(backend: Backend, name: str, path: Path, options: DownloadOptions) -> None:
    """Download to a file that is complete and sound, or not there. Raises CommandError."""
    # Written beside the target and renamed, so that --force never destroys a good file for a broken download.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            sink = _CheckedFile(file, name)
            await fetch(backend, DownloadTargetKind.BACKUP_CONTENTS, name, options, sink)
            sink.finish()
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as error:
        raise CommandError(f"open {path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


class _CheckedFile:
    """A file that accepts only a sound tarball: a proxy may answer in place of the store.

    Damage is said at the end: a signature that does not fit, which is known then, is the better reason.
    """

    def __init__(self, file: BinaryIO, backup: str) -> None:
        from pinnace.storage.encoding import GzipStream

        self._file = file
        self._backup = backup
        self._check = GzipStream(backup)
        self._damage: CommandError | None = None

    def write(self, data: bytes) -> None:
        """Check and write a piece."""
        self._file.write(data)
        if self._damage is not None:
            return
        try:
            with self._translated():
                for _ in self._check.feed(data):
                    pass  # only whether it can be decompressed counts
        except CommandError as error:
            self._damage = error

    def finish(self) -> None:
        """Check that the tarball is complete and was sound. Raises CommandError."""
        if self._damage is not None:
            raise self._damage
        with self._translated():
            self._check.finish()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from pinnace.storage.errors import UnreadableObject

        try:
            yield
        except UnreadableObject as error:
            raise CommandError(
                f"what was downloaded is not the whole tarball of backup {self._backup}: {error.reason};"
                f" {pasteable(f'`backup verify {argument(self._backup)}`')} says whether the stored file is"
                " damaged; if it is sound,"
                " something between here and the store changes what it sends"
            ) from error
