"""Runs tests, and known races among them once more if they failed: `python -m hack.all_tests`. (ADR 072)

Words of the command line go to pytest. The list of races is `tests/races.txt`: a date, a test, and what is
known of its race.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

RACES = Path("tests/races.txt")
LONGEST = timedelta(days=30)
"""How long a race may stay on the list."""

_FAILED = 1
"""The exit code of pytest when tests failed, and not when it was interrupted or could not load them."""
_NOTES = Path(".pytest_cache/v/cache/lastfailed")


def main(words: Sequence[str], today: date) -> int:
    """Run the tests in the current folder. Returns the exit code of pytest's last run."""
    races = read_races(RACES.read_text() if RACES.exists() else "")
    _say("on the list of races", [f"{since} {test}" for test, since in races.items()])
    if old := [test for test, since in races.items() if today - since > LONGEST]:
        _say(f"on the list of races for more than {LONGEST.days} days: find their causes", old)
        return _FAILED
    code = _pytest("--cache-clear", *words)
    failed = sorted(json.loads(_NOTES.read_text())) if code == _FAILED and _NOTES.exists() else []
    if not failed or not all(is_listed(test, races) for test in failed):
        return code
    _say("failed, and run once more, alone", failed)
    code = _pytest(*failed)
    if code == 0:
        _say("passed the second time only, as the list of races says they may", failed)
    return code


def read_races(text: str) -> dict[str, date]:
    """The date of each test of the list. Raises ValueError for a line without a date or a reason."""
    races = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            since, test, _reason = line.split(maxsplit=2)
            races[test] = date.fromisoformat(since)
    return races


def is_listed(test: str, races: Mapping[str, date]) -> bool:
    """Whether a test, or the function of a case of it, is on the list."""
    return test in races or test.partition("[")[0] in races


def _pytest(*words: str) -> int:
    """Run pytest, which ends what its tests have started also when this process is interrupted or ended."""
    with subprocess.Popen([sys.executable, "-m", "pytest", *words]) as process:
        signal.signal(signal.SIGINT, lambda _number, _frame: None)  # pytest gets it too
        signal.signal(signal.SIGTERM, lambda _number, _frame: process.terminate())
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(1.0)  # one long wait may miss a signal


def _say(what: str, tests: Sequence[str]) -> None:
    print(f"\n{len(tests)} {'test' if len(tests) == 1 else 'tests'} {what}{':' if tests else ''}", flush=True)
    for test in tests:
        print(f"  {test}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], datetime.now(UTC).date()))
