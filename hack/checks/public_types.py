"""Verifies with pyright that all types of the Python API are known to type checkers of other programs.

Run as `python -m hack.checks.public_types`. (docs/adr/036)
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

PACKAGE: Final = "pinnace.python_api"
"""The modules whose names `import pinnace` gives."""
_TIMEOUT_SECONDS = 300


def main() -> int:
    """Print pyright's findings if there are any; return its exit code."""
    source = Path("src").absolute()
    program = Path(sys.executable).with_name("basedpyright")
    options = ("--pythonpath", sys.executable, "--ignoreexternal", "--verifytypes", PACKAGE)
    ran = subprocess.run(
        [program, *options],
        # From another folder: here, pyright would not take the modules for those of an installed package.
        cwd=tempfile.gettempdir(),
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if ran.returncode:
        print(ran.stdout, ran.stderr, sep="\n", file=sys.stderr)
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
