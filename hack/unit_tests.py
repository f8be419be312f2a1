"""Runs the unit tests in several processes, each with a share of the files: `python -m hack.unit_tests`.

With pytest-xdist every process loads all tests, which takes as long as running a tenth of them. Here the
files are dealt out by size. Words of the command line go to pytest, for example `-k name`.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

FOLDER = Path("tests/unit")
SHARES_PER_PROCESSOR = 2
"""Tests also wait for child processes; while some wait, others run."""

WAITING = frozenset(
    FOLDER / name
    for name in (
        "cli/location/test_locations.py",
        "cli/test_waiting.py",
        "controllers/node/test_resuming.py",
        "controllers/sync/test_backup_sync.py",
        "kube/auth/test_exec_plugin.py",
        "kube/test_discovery.py",
        "kube/test_exec.py",
        "nonadmin/test_tenant_locations.py",
        "storage/test_writer_claim.py",
    )
)
"""Files whose tests mostly wait for real time. They have a share of their own, beside those that compute."""

_NO_TESTS = 5
"""The exit code of pytest when words such as `-k name` select no test of a share."""


def shares(sizes: Iterable[tuple[str, int]], number: int) -> list[list[str]]:
    """Deal files out to shares of about the same size; every file is in one share."""
    dealt: list[list[str]] = [[] for _ in range(number)]
    totals = [0] * number
    for name, size in sorted(sizes, key=lambda each: (-each[1], each[0])):
        smallest = min(range(number), key=lambda share: (totals[share], len(dealt[share])))
        dealt[smallest].append(name)
        totals[smallest] += size
    return [sorted(share) for share in dealt if share]


def outcome(codes: Sequence[int]) -> int:
    """The exit code for those of the shares: the first failure; no tests only if no share has any."""
    if failures := [code for code in codes if code not in (0, _NO_TESTS)]:
        return failures[0]
    return 0 if 0 in codes else _NO_TESTS


def main(words: Sequence[str]) -> int:
    """Run all shares side by side and print what each says, one after the other."""
    files = set(FOLDER.rglob("test_*.py"))
    sizes = [(str(path), path.stat().st_size) for path in files - WAITING]
    number = SHARES_PER_PROCESSOR * (os.cpu_count() or 1)
    dealt = [sorted(map(str, files & WAITING)), *shares(sizes, number)]
    running: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []
    try:
        for share in dealt:
            output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
            process = subprocess.Popen([*command, *words, *share], stdout=output, stderr=subprocess.STDOUT)
            running.append((process, output))
        codes = []
        for process, output in running:
            codes.append(process.wait())
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
    finally:
        for process, output in running:
            process.kill()  # does nothing to one that has ended
            process.wait()
            output.close()
    return outcome(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
