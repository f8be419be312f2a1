"""The output of the demonstration: plain text, the same with and without a terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence

from examples.compare import Comparison, KindRow, Rules

HEADINGS = ("KIND", "BEFORE", "LOST", "BACK", "DIFFERENT", "UNEXPLAINED")
SHOWN_DIFFERENCES = 40


def table(rows: Iterable[Sequence[object]], headings: Sequence[str]) -> str:
    """Lay out rows under headings: the first column to the left, the others to the right."""
    cells = [tuple(map(str, row)) for row in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )


def kind_table(rows: Sequence[KindRow]) -> str:
    """The table of kinds with a total."""
    counted = [(row.before, row.lost, row.back, row.different, row.unexplained) for row in rows]
    total = tuple(map(sum, zip(*counted, strict=True))) if counted else (0,) * (len(HEADINGS) - 1)
    lines = [(row.kind, *counts) for row, counts in zip(rows, counted, strict=True)]
    return table([*lines, ("total", *total)], HEADINGS)


def explanation(comparison: Comparison, rules: Rules) -> str:
    """The documented differences: the number of objects, and the reason."""
    objects = {(found.rule, found.key, not found.path) for found in comparison.differences if found.rule}
    counts = Counter((rule, whole) for rule, _key, whole in objects)
    lines = [
        f"  {counts[rule.name, whole]:4} {what} {rule.name}: {rule.reason}"
        for what, whole, group in (
            ("differ in ", False, rules.fields),
            ("are missing,", True, rules.missing),
            ("are new,", True, rules.new),
        )
        for rule in group
        if counts[rule.name, whole]
    ]
    return "\n".join(lines)


def unexplained(comparison: Comparison) -> str:
    """The unexplained differences, the first ones in full."""
    found = comparison.unexplained
    lines = [f"  {difference}" for difference in found[:SHOWN_DIFFERENCES]]
    if len(found) > SHOWN_DIFFERENCES:
        lines.append(f"  ... and {len(found) - SHOWN_DIFFERENCES} more")
    return "\n".join(lines)
