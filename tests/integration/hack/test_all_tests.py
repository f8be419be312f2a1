"""`make test` runs known races once more, and names them with their dates. (ADR 072)"""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.waiting import eventually

PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert False\n"
FLAKY = """
import pathlib
def test_flaky():
    tried = pathlib.Path("tried")
    if not tried.exists():
        tried.touch()
        assert False, "the first time"
"""


LONG = """
import pathlib, time
def test_long():
    try:
        pathlib.Path("begun").touch()
        while True: time.sleep(0.01)
    finally:
        pathlib.Path("cleaned").touch()
"""


TODAY = datetime.now(UTC).date()
RACE = f"{TODAY} test_some.py::test_flaky it is one\n"


def start(folder: Path, tests: str, root: Path, races: str = RACE) -> subprocess.Popen[str]:
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests/races.txt").write_text(f"# date, test, reason\n\n{races}")
    (folder / "test_some.py").write_text(tests)
    (folder / "pytest.ini").touch()
    return subprocess.Popen(
        [sys.executable, str(root / "hack/all_tests.py"), "-q"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(root),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "",
        },
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(folder: Path, tests: str, root: Path, races: str = RACE) -> tuple[int, str]:
    with start(folder, tests, root, races) as process:
        output, _ = process.communicate(timeout=200)
    return process.returncode, output


@pytest.mark.parametrize("earlier", [False, True], ids=["clean", "after a failure of a test that is gone"])
def test_one_that_passes_the_second_time_is_named(
    tmp_path: Path, pytestconfig: pytest.Config, earlier: bool
) -> None:
    if earlier:
        run(tmp_path, FAILS, pytestconfig.rootpath)

    code, output = run(tmp_path, PASSES + FLAKY, pytestconfig.rootpath)

    assert code == 0
    assert "AssertionError: the first time" in output, "the report of the failure"
    assert f"1 test on the list of races:\n  {TODAY} test_some.py::test_flaky\n" in output
    assert output.endswith(
        "1 test passed the second time only, as the list of races says they may:\n"
        "  test_some.py::test_flaky\n"
    )


def test_one_that_fails_again_fails_the_run(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    cases = "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_fails(n): assert n == 1\n"
    races = f"{RACE}{TODAY} test_some.py::test_fails all of its cases\n"

    code, output = run(tmp_path, FLAKY + cases, pytestconfig.rootpath, races)

    assert code == 1
    assert "2 tests failed, and run once more, alone" in output
    assert "second time only" not in output


def test_a_race_that_is_a_month_old_fails_the_run_before_any_test(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    old = f"{TODAY - timedelta(days=31)} test_some.py::test_old nobody looked\n"

    code, output = run(tmp_path, PASSES, pytestconfig.rootpath, RACE + old)

    assert code == 1
    assert output.endswith(
        "1 test on the list of races for more than 30 days: find their causes:\n  test_some.py::test_old\n"
    )


@pytest.mark.parametrize(
    ("tests", "code"),
    [
        (PASSES, 0),
        (FLAKY + FAILS, 1),
        ("import nothing", 2),
        ("", 5),
    ],
    ids=["none failed", "one failed that is not on the list", "not loaded", "no tests"],
)
def test_nothing_else_is_run_again(
    tmp_path: Path, pytestconfig: pytest.Config, tests: str, code: int
) -> None:
    ended, output = run(tmp_path, tests, pytestconfig.rootpath)

    assert ended == code
    assert "once more" not in output


async def test_an_interrupt_lets_the_tests_clean_up(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    with start(tmp_path, LONG, pytestconfig.rootpath) as process:
        await eventually(lambda: _exists(tmp_path / "begun"))
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        output, _ = process.communicate(timeout=200)

    assert process.returncode == 2
    assert "KeyboardInterrupt" in output
    assert (tmp_path / "cleaned").exists()


async def test_a_run_that_is_ended_ends_its_tests(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    with start(tmp_path, LONG, pytestconfig.rootpath) as process:
        await eventually(lambda: _exists(tmp_path / "begun"))
        process.terminate()
        process.communicate(timeout=200)  # the end of the output: no process has it open any more

    assert process.returncode != 0


async def _exists(path: Path) -> bool:
    return await asyncio.to_thread(path.exists)
