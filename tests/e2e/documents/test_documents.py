"""Runs the `console` blocks that documents mark with `<!-- runnable -->`, on a real cluster.

`kubectl` is a stand-in: of its commands only what the documents use is understood, and carried out through
the same API server.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from tests.support import golden

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"<!-- runnable -->\n```console\n(.*?)```", re.S)
MIGRATION = "docs/tasks/migrate-from-velero.md"
PAGES = ("README.md", "docs/tasks/without-a-server.md", MIGRATION)
COMMAND_SECONDS = 60


def blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.cluster
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_do_what_it_says(
    page: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    if page == MIGRATION:
        golden.unpack("1.18.0", tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in (("pinnace", "pinnace.cli.main"), ("kubectl", "tests.e2e.documents.kubectl")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        program.chmod(0o755)
    environ = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(control_plane.kubeconfig),
        "PYTHONPATH": str(ROOT),
    }
    found = blocks(page)

    assert found, f"{page} marks no block as runnable"
    for block in found:
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if not line.startswith("$ "):
                continue
            if variable := re.fullmatch(r"\$ export (\w+)=(\S+)(?:\s+#.*)?", line):
                environ[variable[1]] = variable[2]
                continue
            # `backup diff` says by exit code 1 that something differs, which it is shown for.
            expected = 1 if " diff " in line else 0
            ended = subprocess.run(
                line[2:].split("#")[0],
                shell=True,
                cwd=tmp_path,
                env=environ,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
            assert ended.returncode == expected, f"{line}\n{ended.stdout}{ended.stderr}"
