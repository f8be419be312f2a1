"""`restore-helper`: what the init container of a restored pod runs until its volumes have their data.

For each directory below /restores, the node agent writes the file `.velero/<uid of the Restore>` when the
volume that is mounted there is done. There is no time limit: a pod must not start without its data.
(docs/spec: PVL 11, SRV 17)

It needs the standard library only: an init container has a tenth of a processor by default.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

VOLUMES = Path("/restores")
POLL_SECONDS = 1.0


def main(
    arguments: Sequence[str], *, volumes: Path = VOLUMES, sleep: Callable[[float], None] = time.sleep
) -> int:
    """Wait for all volumes; the exit code. `arguments` is the uid of the Restore."""
    if len(arguments) != 1 or not arguments[0]:
        _print("ERROR: exactly one argument must be provided, the restore's UID", error=True)
        return 1
    while not is_done(volumes, arguments[0]):
        sleep(POLL_SECONDS)
    _print("All restic restores are done")
    return 0


def is_done(volumes: Path, restore_uid: str) -> bool:
    """Whether every volume has its data; prints what it finds."""
    try:
        entries = sorted(os.scandir(volumes), key=lambda entry: entry.name)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                _print(f"{entry.name} is not a directory, skipping.")
                continue
            path = Path(entry.path, ".velero", restore_uid)
            try:
                path.lstat()
            except FileNotFoundError:
                _print(f"Not found: {path}")
                return False
            _print(f"Found {path}")
    except OSError as error:
        _print(f"ERROR: {error.filename}: {error.strerror}", error=True)
        return False
    return True


def end_on_signals() -> None:
    """End on SIGTERM, which the first process of a container ignores unless it has a handler."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def _print(text: str, *, error: bool = False) -> None:
    print(text, file=sys.stderr if error else sys.stdout, flush=True)
