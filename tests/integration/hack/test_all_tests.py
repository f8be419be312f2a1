"""`make test` runs a few tests that failed once more, and says so. (ADR 072)"""

import asyncio
import os
import signal
import subprocess
import sys
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


def start(folder: Path, tests: str, root: Path) -> subprocess.Popen[str]:
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


def run(folder: Path, tests: str, root: Path) -> tuple[int, str]:
    with start(folder, tests, root) as process:
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
    assert output.endswith(
        "1 test passed the second time only: a race in the test or in the program, which has to be found:\n"
        "  test_some.py::test_flaky\n"
    )


def test_one_that_fails_again_fails_the_run(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    code, output = run(tmp_path, FLAKY + FAILS, pytestconfig.rootpath)

    assert code == 1
    assert "2 tests failed, and run once more, alone" in output
    assert "second time only" not in output


@pytest.mark.parametrize(
    ("tests", "code"),
    [
        (PASSES, 0),
        ("".join(f"def test_{n}(): assert False\n" for n in range(4)), 1),
        ("import nothing", 2),
        ("", 5),
    ],
    ids=["none failed", "many failed", "not loaded", "no tests"],
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
