"""How much memory a child process may use: Go programs keep to the variable GOMEMLIMIT where they can.

The container has a limit for this process and its children together. One that passes it is killed, with
everything that it was doing.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

VARIABLE: Final = "GOMEMLIMIT"
OWN_BYTES: Final = 160 << 20
"""The memory that is reserved for this process."""
SHARE: Final = 0.8
"""The share of the rest that is given to child processes; Go programs exceed their limit for short times."""
LEAST_BYTES: Final = 128 << 20
MOST_BYTES: Final = 2 << 30
"""The largest limit, also where the container has none."""

_LIMIT_FILES: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def with_memory_limit(
    inherited: Mapping[str, str], *, at_once: int, container_bytes: int | None
) -> dict[str, str]:
    """The environment with a limit for each child process; one that is set already stays.

    Args:
        at_once: how many child processes run at the same time.
        container_bytes: the limit of the container; None if it has none.
    """
    made = dict(inherited)
    if not made.get(VARIABLE):
        share = MOST_BYTES
        if container_bytes is not None:
            share = int((container_bytes - OWN_BYTES) * SHARE / max(at_once, 1))
        made[VARIABLE] = f"{max(LEAST_BYTES, min(share, MOST_BYTES)) >> 20}MiB"
    return made


def container_limit(files: tuple[Path, ...] = _LIMIT_FILES) -> int | None:
    """The memory limit of our container; None if it has none, or none that can be read."""
    for file in files:
        with suppress(OSError, ValueError):
            return int(file.read_text())  # "max", where there is no limit, is no number
    return None
