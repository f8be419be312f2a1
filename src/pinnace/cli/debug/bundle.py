"""The file of a support bundle: a tar.gz whose content is redacted before it is written."""

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from pinnace.aio.clock import Clock
from pinnace.cli.errors import CommandError
from pinnace.messages.redaction import redact_object, redact_text


class Bundle:
    """An open bundle; each file in it is below the folder `bundle`."""

    def __init__(self, archive: tarfile.TarFile, *, clock: Clock) -> None:
        self._archive = archive
        self._clock = clock
        self.files: list[str] = []
        self.problems: list[str] = []

    def add_text(self, name: str, text: str) -> None:
        """Add a text, without the secrets in it."""
        self._add(name, redact_text(text).encode())

    def add_object(self, name: str, value: Any) -> None:
        """Add a JSON value, without the secrets in it."""
        self._add(name, orjson.dumps(redact_object(value), option=orjson.OPT_INDENT_2))

    def problem(self, text: str) -> None:
        """Note a part that could not be read; the bundle is useful without it."""
        self.problems.append(text)

    def _add(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(f"bundle/{name}")
        entry.size, entry.mode, entry.mtime = len(data), 0o600, int(self._clock.now().timestamp())
        self._archive.addfile(entry, io.BytesIO(data))
        self.files.append(name)


@contextmanager
def open_bundle(path: Path, *, clock: Clock) -> Iterator[Bundle]:
    """Make a bundle that only this user can read. The file appears at the end of the block, or not at all.

    Raises:
        CommandError: there is such a file, or it cannot be written.
    """
    if path.exists():
        raise CommandError(f"open {path}: file exists")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with (
            os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            bundle = Bundle(archive, clock=clock)
            yield bundle
            if bundle.problems:
                bundle.add_text("problems.txt", "\n".join(bundle.problems) + "\n")
        part.rename(path)
    except OSError as error:
        raise CommandError(f"open {path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
