"""Runs all tests, and a few that failed once more: `python -m hack.all_tests`. (ADR 072)

Words of the command line go to pytest.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

FAILURES = 3
"""With more failures than these nothing is run again: something is broken."""

_FAILED = 1
"""The exit code of pytest when tests failed, and not when it was interrupted or could not load them."""


def main(words: Sequence[str]) -> int:
    """Run the tests in the current folder. Returns the exit code of pytest's last run."""
    code = _pytest("--cache-clear", *words)
    failed = last_failed() if code == _FAILED else []
    if not 0 < len(failed) <= FAILURES:
        return code
    _say("failed, and run once more, alone", failed)
    code = _pytest(*failed)
    if code == 0:
        _say(
            "passed the second time only: a race in the test or in the program, which has to be found", failed
        )
    return code


def last_failed() -> list[str]:
    """The tests that failed or could not be set up in the last run that began with an empty cache."""
    path = Path(".pytest_cache/v/cache/lastfailed")
    return sorted(json.loads(path.read_text())) if path.exists() else []


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
