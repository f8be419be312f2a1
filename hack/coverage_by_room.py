"""Prints how much of each room the tests ran: `make coverage` calls it after them.

A room is a package of `pinnace`; a module at its top is one of its own. Lines that only a type checker reads
are not counted.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

MEASURED = Path("build/coverage/measured.json")
"""Written by `coverage json`."""
_PACKAGE = "pinnace"

Lines = tuple[int, int]
"""Statements, and those that ran."""


def by_room(files: Iterable[tuple[str, Lines]]) -> dict[str, Lines]:
    """The sums of each room, those of the smallest share first."""
    sums: dict[str, Lines] = {}
    for path, (statements, ran) in files:
        parts = Path(path).parts
        room = parts[parts.index(_PACKAGE) + 1]
        before = sums.get(room, (0, 0))
        sums[room] = before[0] + statements, before[1] + ran
    return dict(sorted(sums.items(), key=lambda each: share(each[1])))


def share(lines: Lines) -> float:
    """The part that ran; 1 for a room without statements."""
    return lines[1] / lines[0] if lines[0] else 1.0


def thin(files: Iterable[tuple[str, Lines]], most: int = 10) -> list[tuple[str, Lines]]:
    """The modules with the most statements that did not run."""
    return sorted(files, key=lambda each: each[1][1] - each[1][0])[:most]


def main() -> int:
    """Print the table of rooms and the thinnest modules."""
    measured: Mapping[str, Mapping[str, Mapping[str, int]]] = json.loads(MEASURED.read_text())["files"]
    files = [
        (path, (found["summary"]["num_statements"], found["summary"]["covered_lines"]))
        for path, found in measured.items()
    ]
    rooms = by_room(files)
    total = sum(each[0] for each in rooms.values()), sum(each[1] for each in rooms.values())
    print(f"{'ROOM':<16}{'STATEMENTS':>12}{'RAN':>8}")
    for room, lines in [*rooms.items(), ("all", total)]:
        print(f"{room:<16}{lines[0]:>12}{share(lines):>8.1%}")
    print("\nThe modules with the most statements that did not run:")
    for path, lines in thin(files):
        print(f"  {lines[0] - lines[1]:>5} of {lines[0]:<5} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
