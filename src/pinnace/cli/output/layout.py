"""The layout of `describe`: text with elastic tab stops. (docs/spec: CLI 2.4)"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import click

from pinnace.cli.guard import printable

_PADDING = 2
_OUTLINE_LINES = 10_000
_PRINTED_AT_ONCE = 1 << 20


_Line = str | tuple[str]
"""A line with its cells, or lines in a tuple that need no alignment."""


def _cell(text: str) -> str:
    """A text in one line, without tabs, which would be columns."""
    return text if text.isprintable() else printable(text).expandtabs(1)


class Sheet:
    """Collects lines whose cells end in tabs and aligns them as one text.

    Only `paint` adds colours: those in untrusted text are escaped.
    """

    def __init__(self, *, colour: bool = False) -> None:
        self._lines: list[_Line] = []
        self._colour = colour
        # Random, so that untrusted text cannot contain it and look like a colour of `paint`.
        self._escape = f"\x1b{os.urandom(8).hex()}["

    def line(self, text: str = "") -> None:
        """Add a line. Newlines inside a value act as layout, as in the compatible output."""
        parts = (printable(part) for part in text.split(self._escape))
        self._lines.extend("\x1b[".join(parts).split("\n"))

    def field(self, name: str, value: object, *, indent: int = 0) -> None:
        """Add `name:<tab>value`."""
        self.line("\t" * indent + f"{name}:\t{value}")

    def mapping(self, name: str, items: Mapping[str, str] | None) -> None:
        """Add a map as `k=v` lines, sorted; `<none>` when empty."""
        if not items:
            self.line(f"{name}:\t<none>")
            return
        for position, key in enumerate(sorted(items)):
            self.line(f"{name if not position else ''}{':' if not position else ''}\t{key}={items[key]}")

    def outline(self, lines: Iterable[tuple[int, str]]) -> None:
        """Add lines by themselves, each indented by a number of levels: there may be a million of them."""
        rest = iter(lines)
        while some := list(islice(rest, _OUTLINE_LINES)):
            self._lines.append(("\n".join([f"{'  ' * level}{_cell(text)}" for level, text in some]),))

    def paint(self, text: str, code: str) -> str:
        """Text in an ANSI colour, if colour is on; to be added to this sheet."""
        return f"{self._escape}{code}m{text}{self._escape}0m" if self._colour else text

    def render(self) -> str:
        """The aligned text, without a newline at its end."""
        return align(self._lines)


def echo_laid_out(text: str, *, colour: bool | None = None) -> None:
    """Print a table or the text of sheets past the guard of the terminal, so that their colours are shown."""
    for some in _slices(text):
        click.echo(some, file=getattr(sys.stdout, "unguarded", sys.stdout), nl=False, color=colour)


def _slices(text: str) -> Iterator[str]:
    """Whole lines, some at a time: printing takes as much memory again as what is printed at once."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _PRINTED_AT_ONCE) + 1 or len(text)
        yield text[start:end]
        start = end


def align(lines: Sequence[_Line]) -> str:
    """Align tab-terminated cells: a column is a run of consecutive lines that have it.

    A line with fewer tabs ends the columns it lacks; text after the last tab is not padded.
    """
    rows: list[list[str]] = [list(line) if isinstance(line, tuple) else line.split("\t") for line in lines]
    widths: list[list[int]] = [[0] * (len(row) - 1) for row in rows]
    start = 0
    while start < len(rows):
        end = start + 1
        if len(rows[start]) > 1:
            while end < len(rows) and len(rows[end]) > 1:
                end += 1
            _set_widths(rows, widths, start, end, 0)
        start = end
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(row, width_row, strict=False)) + row[-1]
        for row, width_row in zip(rows, widths, strict=True)
    )


def _set_widths(rows: list[list[str]], widths: list[list[int]], start: int, end: int, column: int) -> None:
    """Set the width of `column` for rows[start:end], which all have it, then for the columns to its right."""
    width = max(len(rows[i][column]) for i in range(start, end)) + _PADDING
    for i in range(start, end):
        widths[i][column] = width
    i = start
    while i < end:
        j = i
        while j < end and len(rows[j]) > column + 2:
            j += 1
        if j > i:
            _set_widths(rows, widths, i, j, column + 1)
        i = max(j, i + 1)
