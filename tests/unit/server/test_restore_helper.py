"""What the init container of a restored pod runs."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace.cli.program import run
from pinnace.server.restore_helper import main

UID = "1ee7-5"


def mark(volumes: Path, name: str, uid: str = UID) -> None:
    directory = volumes / name / ".velero"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / uid).touch()


def no_sleep(_seconds: float) -> None:
    pytest.fail("it had to wait")


def then(action: Callable[[], None]) -> Callable[[float], None]:
    """Acts in place of the first sleep; a second one fails."""
    left = [action]

    def sleep(seconds: float) -> None:
        assert seconds == 1.0
        assert left, "it waits although all is there"
        left.pop()()

    return sleep


@pytest.mark.spec("SRV-020", "PVL-069")
@pytest.mark.parametrize("words", [[], ["a", "b"], [""]])
def test_anything_but_one_argument_is_an_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert capsys.readouterr().err == "ERROR: exactly one argument must be provided, the restore's UID\n"


@pytest.mark.spec("SRV-020", "PVL-069", "CLI-050")
def test_it_ends_when_all_volumes_are_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    mark(tmp_path, "a")
    mark(tmp_path, "b", "of-another-restore")

    assert main([UID], volumes=tmp_path, sleep=then(lambda: mark(tmp_path, "b"))) == 0

    assert capsys.readouterr().out.splitlines() == [
        f"Found {tmp_path}/a/.velero/{UID}",
        f"Not found: {tmp_path}/b/.velero/{UID}",
        f"Found {tmp_path}/a/.velero/{UID}",
        f"Found {tmp_path}/b/.velero/{UID}",
        "file is not a directory, skipping.",
        "All restic restores are done",
    ]


@pytest.mark.spec("SRV-020", "CLI-050")
def test_without_volumes_it_ends_at_once(tmp_path: Path) -> None:
    assert main([UID], volumes=tmp_path, sleep=no_sleep) == 0


def test_an_unreadable_volume_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volumes = tmp_path / "restores"

    assert main([UID], volumes=volumes, sleep=then(volumes.mkdir)) == 0

    assert capsys.readouterr().err == f"ERROR: {volumes}: No such file or directory\n"


def test_it_loads_no_command_line_and_ends_on_sigterm(tmp_path: Path) -> None:
    """As an image has it: under the name of Velero's helper; nothing of the command line is loaded."""
    code = f"""
import sys
from pathlib import Path
from pinnace.cli import main
from pinnace.server import restore_helper
restore_helper.main.__kwdefaults__["volumes"] = Path({str(tmp_path)!r})
sys.argv = ["/velero-restic-restore-helper", {UID!r}]
heavy = {{"click", "asyncio", "msgspec", "aiohttp"}} & set(sys.modules)
print("loaded", sorted(heavy), flush=True)
main.main()
"""
    (tmp_path / "a").mkdir()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == "loaded []\n"
        assert output.readline().startswith("Not found")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=30) == 128 + signal.SIGTERM


def test_the_command_has_help_and_needs_one_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["restore-helper", "--help"]) == 0
    assert "RESTORE_UID" in capsys.readouterr().out
    assert run(["restore-helper"]) == 1
    assert "exactly one argument" in capsys.readouterr().err
