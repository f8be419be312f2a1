"""The repository that plugin authors start from works as it is."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
TEMPLATE = CHECKOUT / "examples" / "plugin"


@pytest.fixture
def environment() -> dict[str, str]:
    """Without the variables by which one pytest tells another that it is its worker."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTHONPATH": str(TEMPLATE / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def test_its_own_tests_pass(environment: dict[str, str], tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}"],
        cwd=TEMPLATE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 passed" in ended.stdout


def test_its_program_is_a_plugin(environment: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from pinnace.plugins.testing import plugins_in;"
        "print(plugins_in(Path(sys.argv[1])))"
    )
    program = tmp_path / "owner-plugin"
    program.write_text(f"#!{sys.executable}\nfrom owner_plugin.__main__ import main\nmain()\n")
    program.chmod(0o755)
    ended = subprocess.run(
        [sys.executable, "-c", script, program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.stdout == "['BackupItemAction example.com/add-owner']\n", ended.stderr


def test_its_entry_point_is_of_the_group_that_is_looked_for() -> None:
    from pinnace.plugins.loading import ENTRY_POINT_GROUP

    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]

    assert project["entry-points"] == {ENTRY_POINT_GROUP: {"owner-plugin": "owner_plugin:plugins"}}
    assert project["scripts"] == {"owner-plugin": "owner_plugin.__main__:main"}
