"""Checks that texts stay plain: few relative clauses behind a preposition, no rare words.

Run as `python -m hack.checks.words`; prints each place of a pattern that stands more often than its limit. A
sentence has a noun as its subject and an active verb: "the zone of the disk", not "the zone in which it is".
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

TEXTS: Final = ("src/pinnace", "docs", "hack", "README.md", "CHANGELOG.md")
LEFT_OUT: Final = ("docs/adr", "hack/checks/words.py")
"""Decisions keep the words of their time."""

LIMITS: Final = {
    re.compile(
        r"\b(about|after|against|at|before|by|for|from|in|into|of|on|over|since|through|to|under|until|upon"
        r"|with|within|without)[\s\"#]+(whichever|which|whom|whose)\b",
        re.IGNORECASE,
    ): 12,
    re.compile(r"\banew\b", re.IGNORECASE): 0,
    re.compile(r"\bmend(s|ed|ing)?\b", re.IGNORECASE): 0,
}
"""How often a pattern may stand in all texts together; at times a clause is plainer than its avoidance."""


def problems(texts: Iterable[tuple[str, str]]) -> list[str]:
    """The places of each pattern that is over its limit, one line each; `texts` are names with contents."""
    known = list(texts)
    lines: list[str] = []
    for pattern, limit in LIMITS.items():
        found = [
            f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {' '.join(match[0].split())!r}"
            for name, text in known
            for match in pattern.finditer(text)
        ]
        if len(found) > limit:
            lines += [f"{len(found)} places, {limit} at most:", *found]
    return lines


def _texts() -> Iterator[tuple[str, str]]:
    for root in map(Path, TEXTS):
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.suffix in (".py", ".md") and not str(path).startswith(LEFT_OUT):
                yield str(path), path.read_text()


def main() -> int:
    """Print the problems; 1 if there are any."""
    lines = problems(_texts())
    print("\n".join(lines) or "the texts are plain")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
