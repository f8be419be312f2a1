"""Reads files that are small by their nature, such as settings, credentials and certificates."""

import errno
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 16 << 20
"""More than any of them has; a device such as /dev/zero has no end, and would fill the memory."""


def read_small_file(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a file. Raises OSError, also for one that is larger than `max_bytes`."""
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(
            errno.EFBIG, f"larger than {max_bytes >> 20} MiB, so it cannot be what it should be", str(path)
        )
    return content
