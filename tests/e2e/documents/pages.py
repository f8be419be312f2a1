"""The commands of documents: the `console` blocks that are marked with `<!-- runnable -->`, run in order."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COMMAND_SECONDS = 180
_BLOCK = re.compile(r"^ *<!-- runnable -->\n( *)```console\n(.*?)^\1```", re.S | re.M)


def blocks(page: str) -> list[list[str]]:
    """The commands of each marked block of a page, without their prompts."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [textwrap.dedent(block) for _, block in _BLOCK.findall(text)]
    joined = (re.sub(r"\\\n\s*", "", block).splitlines() for block in found)
    return [[line[2:] for line in lines if line.startswith("$ ")] for lines in joined]


class Reader:
    """A reader of a page at a terminal, with `pinnace`, and `kubectl` as far as documents use it.

    Only the commands of a page set and unset variables, so that no test does what its reader is not told.

    Args:
        folder: home, and where commands run.
        kubeconfig: the cluster.
        own: what this reader writes in place of the names in the page.
    """

    def __init__(self, folder: Path, kubeconfig: Path, own: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._own = own or {}
        programs = folder / "bin"
        programs.mkdir(parents=True)
        for name, module in (("pinnace", "pinnace.cli.main"), ("kubectl", "tests.e2e.documents.kubectl")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
            program.chmod(0o755)
        self._environ = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": str(ROOT),
        }

    def run(self, commands: list[str]) -> str:
        """Run them one after the other, each of which must succeed; what they printed."""
        printed = ""
        for line in commands:
            command = line
            for theirs, mine in self._own.items():
                command = command.replace(theirs, mine)
            if variable := re.fullmatch(r"export (\w+)='?([^\s']+)'?(?:\s+#.*)?", command):
                self._environ[variable[1]] = variable[2]
                continue
            if command.startswith("unset "):
                del self._environ[command.split()[1]]
                continue
            # `backup diff` says by exit code 1 that something differs, which it is shown for.
            expected = 1 if " diff " in command else 0
            ended = subprocess.run(
                command.split(" #")[0],
                shell=True,
                cwd=self._folder,
                env=self._environ,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
            assert ended.returncode == expected, f"{line}\n{ended.stdout}{ended.stderr}"
            printed += ended.stdout
        return printed
