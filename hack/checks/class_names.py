"""Checks that a public class name stands in one module of the source. (docs/adr/110)

Run as `python -m hack.checks.class_names`; prints each name that stands in several, with its modules. Two
definitions of one concept become one; two concepts get names of their subjects.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

SOURCE: Final = Path("src/pinnace")
KEPT: Final = frozenset({"NameTaken", "NotLeading"})
"""The names that stay double; ADR 110 has the reason of each."""


def problems(folder: Path) -> list[str]:
    """The names of public classes that stand in several modules below `folder`, one line each."""
    modules = defaultdict[str, list[str]](list)
    for path in sorted(folder.rglob("*.py")):
        if path.stem.endswith("_pb2"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(folder)))
    return [
        f"class {name} stands in {', '.join(found)}: see docs/adr/110"
        for name, found in sorted(modules.items())
        if len(found) > 1 and name not in KEPT
    ]


def main() -> int:
    """Print the problems; 1 if there are any."""
    lines = problems(SOURCE)
    print("\n".join(lines) or "each public class name stands in one module")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
