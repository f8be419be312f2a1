"""Figures against floors and targets, and the table that shows them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

HEADINGS = ("figure", "floor", "ours", "result", "first target", "aim", "met")
MEBIBYTE = 1 << 20


class Unit(StrEnum):
    """The unit of a series."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    MEBIBYTES = "MiB"
    REQUESTS = "requests"
    PASSES = "passes"
    COUNT = "of them"


class Rule(StrEnum):
    """How a result is calculated from our series and the floor."""

    RATIO = "ratio"
    ADDED = "added"
    ALONE = "alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The first target and the aim of a result; smaller is better."""

    first: float
    aim: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The samples of one candidate."""

    name: str
    values: Sequence[float]

    @property
    def median(self) -> float:
        """The middle of the samples."""
        return median(self.values)

    def text(self, unit: Unit) -> str:
        """Median, and minimum to maximum."""
        digits = 2 if unit is Unit.SECONDS else 0
        low, middle, high = (f"{x:.{digits}f}" for x in (min(self.values), self.median, max(self.values)))
        return f"{middle} {unit}" if len(self.values) == 1 else f"{middle} {unit} ({low}-{high})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table.

    Attributes:
        floors: candidates for the floor, which is the one with the smallest median.
        target: left out for figures that only explain others.
    """

    name: str
    unit: Unit
    rule: Rule
    ours: Series
    floors: Sequence[Series] = field(default=())
    target: Target | None = None

    @property
    def floor(self) -> Series | None:
        """The fastest candidate."""
        return min(self.floors, key=lambda series: series.median, default=None)

    @property
    def result(self) -> float:
        """The value that is compared with the target."""
        if self.rule is Rule.ALONE or self.floor is None:
            return self.ours.median
        if self.rule is Rule.RATIO:
            return self.ours.median / self.floor.median
        return self.ours.median - self.floor.median

    @property
    def verdict(self) -> str:
        """Whether the target or even the aim is met."""
        if self.target is None:
            return ""
        if self.result <= self.target.aim:
            return "aim"
        return "first target" if self.result <= self.target.first else "NO"

    def cells(self) -> tuple[str, ...]:
        """The line's text."""
        floor = "" if self.floor is None else f"{self.floor.text(self.unit)} {self.floor.name}"
        targets = ("", "")
        if self.target is not None:
            targets = (f"<= {self._format(self.target.first)}", f"<= {self._format(self.target.aim)}")
        ours = self.ours.text(self.unit)
        return (self.name, floor, ours, self._format(self.result), *targets, self.verdict)

    def document(self) -> dict[str, Any]:
        """All samples, for a JSON file."""
        return asdict(self) | {"result": self.result, "verdict": self.verdict}

    def _format(self, value: float) -> str:
        if self.rule is Rule.RATIO:
            return f"{value:.2f}x"
        return f"{'+' if self.rule is Rule.ADDED else ''}{value:.0f} {self.unit}"


def text_table(figures: Iterable[Figure]) -> str:
    """The table for a terminal."""
    rows = [HEADINGS, *(figure.cells() for figure in figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def markdown_table(figures: Iterable[Figure]) -> str:
    """The table for a document."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *(figure.cells() for figure in figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
