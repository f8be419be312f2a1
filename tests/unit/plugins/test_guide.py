"""What docs/tasks/write-a-plugin.md says works."""

import re
import subprocess
import sys
from pathlib import Path

from pinnace.plugins.calling import DEFAULT_DEADLINES
from pinnace.plugins.host.options import ProcessLimits
from pinnace.plugins.host.supervisor import MAX_SILENCES
from pinnace.plugins.testing import plugins_in
from tests.support.plugins.programs import put_script

GUIDE = (Path(__file__).parents[3] / "docs" / "tasks" / "write-a-plugin.md").read_text()


def example() -> str:
    found = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert found
    return found[1]


def test_the_plugin_of_the_guide_runs(tmp_path: Path) -> None:
    assert len(example().split("\n")) <= 25
    (tmp_path / "my_plugin.py").write_text(example())
    command = re.search(r"\$ python -c '\n(.*?)'\n(.*?)\n", GUIDE, re.DOTALL)
    assert command

    ended = subprocess.run(
        [sys.executable, "-c", command[1]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.stdout.strip() == command[2], ended.stderr


def test_the_plugin_of_the_guide_runs_as_a_program(tmp_path: Path) -> None:
    program = put_script(tmp_path, "my_plugin.py", f"#!{sys.executable}\n{example()}")

    assert plugins_in(program) == ["BackupItemAction example.com/add-team"]


def test_numbers() -> None:
    assert (DEFAULT_DEADLINES.work, DEFAULT_DEADLINES.question, DEFAULT_DEADLINES.block) == (900, 60, 300)
    assert (
        "A call may take 15 minutes (a question such as `applies_to` one minute, a block of an object five)"
        in GUIDE
    )
    assert MAX_SILENCES == 3
    assert ProcessLimits().start == 60
