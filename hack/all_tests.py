"""Runs tests, and a few that failed once more: `python -m hack.all_tests`. (ADR 072)

Words of the command line go to pytest. With `--unit` as the first word they are the unit tests, in shares.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from hack import unit_tests

FAILURES = 3
"""With more failures than these nothing is run again: something is broken."""

_FAILED = 1
"""The exit code of pytest when tests failed, and not when it was interrupted or could not load them."""


def main(words: Sequence[str]) -> int:
    """Run the tests in the current folder. Returns the exit code of pytest's last run."""
    if words[:1] == ["--unit"]:
        code, caches = unit_tests.main(words[1:]), sorted(unit_tests.CACHES.glob("*"))
    else:
        code, caches = _pytest("--cache-clear", *words), [Path(".pytest_cache")]
    failed = last_failed(caches) if code == _FAILED else []
    if not 0 < len(failed) <= FAILURES:
        return code
    _say("failed, and run once more, alone", failed)
    code = _pytest(*failed)
    if code == 0:
        _say(
            "passed the second time only: a race in the test or in the program, which has to be found", failed
        )
    return code


def last_failed(caches: Iterable[Path]) -> list[str]:
    """The tests that failed or could not be set up in runs that began with these caches, which were empty."""
    notes = [cache / "v/cache/lastfailed" for cache in caches]
    return sorted(name for note in notes if note.exists() for name in json.loads(note.read_text()))


def _pytest(*words: str) -> int:
    """Run pytest, which ends what its tests have started also when this process is interrupted or ended."""
    with subprocess.Popen([sys.executable, "-m", "pytest", *words]) as process:
        signal.signal(signal.SIGINT, lambda _number, _frame: None)  # pytest gets it too
        signal.signal(signal.SIGTERM, lambda _number, _frame: process.terminate())
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(1.0)  # one long wait may miss a signal


def _say(what: str, tests: Sequence[str]) -> None:
    print(f"\n{len(tests)} {'test' if len(tests) == 1 else 'tests'} {what}:", flush=True)
    for test in tests:
        print(f"  {test}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
