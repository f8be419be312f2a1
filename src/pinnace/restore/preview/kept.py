"""Objects that are kept in a nameless file, so that memory does not grow with their contents."""

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from pinnace.aio.temporary import problem_text
from pinnace.api.objects import JSONObject
from pinnace.restore.errors import RestoreFailed

Place = tuple[int, int]
"""Offset and size in the file."""


class KeptObjects:
    """A file of objects, readable by this user only and gone with the process. A context manager.

    Raises:
        RestoreFailed: from every method, if the file cannot be made, written or read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise self._failed("making", error) from error
        self._end = 0

    def add(self, raw: bytes) -> Place:
        """Keep an object's JSON; returns where it is."""
        place = (self._end, len(raw))
        view = memoryview(raw)
        try:
            while view:
                written = os.pwrite(self._file.fileno(), view, self._end)
                self._end += written
                view = view[written:]
        except OSError as error:
            raise self._failed("writing", error) from error
        return place

    def read(self, place: Place) -> JSONObject:
        """Return a new dict of an object. Raises orjson.JSONDecodeError if it is nested too deeply."""
        offset, size = place
        try:
            raw = os.pread(self._file.fileno(), size, offset)
        except OSError as error:
            raise self._failed("reading", error) from error
        obj: JSONObject = orjson.loads(raw)
        return obj

    def _failed(self, what: str, error: OSError) -> RestoreFailed:
        return RestoreFailed(f"{what} a temporary file: {problem_text(self._folder, error)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
