"""Checks that test modules do not import from each other: shared helpers belong in tests/support.

Run as `python -m hack.checks.imports_of_tests`; prints each import from a conftest or another test module.
Such an import runs the other module's tests' set-up, and makes one test's helper another's contract.
"""

import ast
import re
import sys
from pathlib import Path
from typing import Final

TESTS: Final = Path("tests")
_NOT_TO_IMPORT: Final = re.compile(r"(^|\.)(conftest|test_\w+)$")


def problems(folder: Path) -> list[str]:
    """The imports below `folder` from a conftest or from a test module, one line each."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or "", *(f"{node.module}.{each.name}" for each in node.names)]
            elif isinstance(node, ast.Import):
                modules = [each.name for each in node.names]
            else:
                continue
            if not modules[0].startswith("tests."):
                continue
            wrong = next((each for each in modules if _NOT_TO_IMPORT.search(each)), None)
            if wrong is not None:
                found.append(f"{path}:{node.lineno}: from {wrong}: what is shared is in tests/support")
    return found


def main() -> int:
    """Print the problems; 1 if there are any."""
    lines = problems(TESTS)
    print("\n".join(lines) or "no test imports from a conftest or another test module")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
