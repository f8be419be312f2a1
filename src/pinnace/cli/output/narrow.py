"""Fits tables and texts into the columns of a terminal. Pure, but for the size of the terminal.

Pipes and `-o wide` keep the layout of the compatible command line: programs parse it. (docs/spec: CLI 2.3)
"""

import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final

Column = Sequence[str]
"""The title and the cells."""

_TIME: Final = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}) \S+"
_FREE_TEXT: Final = "MESSAGE"
_LEAST_TEXT: Final = 20
"""Fewer columns are not worth wrapping for."""


def terminal_columns() -> int | None:
    """The columns of the terminal that is stdout; None if it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    import shutil  # loads three compressors

    return shutil.get_terminal_size().columns


def padded_width(column: Column) -> int:
    """The columns that all but the last column of a table take."""
    return max(6, max(map(len, column)) + 3)


def narrowed(columns: Sequence[Column], room: int, expendable: Sequence[str], now: datetime) -> list[Column]:
    """The columns of a table, as few as need be that each row is one line.

    Times become ages first, then columns are left out in the order of `expendable`, and a message at the end
    is cut. What is left then may wrap: no name or status is hidden.
    """
    chosen = list(columns)
    if _width(chosen) <= room:
        return chosen
    chosen = [[column[0], *(_aged(cell, now) for cell in column[1:])] for column in chosen]
    for title in expendable:
        if _width(chosen) <= room:
            break
        chosen = [column for column in chosen if column[0] != title]
    last = chosen[-1]
    if last[0] == _FREE_TEXT and (over := _width(chosen) - room) > 0:
        most = max(max(map(len, last)) - over, len(_FREE_TEXT))
        chosen[-1] = [cell if len(cell) <= most else f"{cell[: most - 2]}.." for cell in last]
    return chosen


def wrapped(text: str, indent: int, columns: int | None) -> str:
    """The text in lines that end between words; all but the first are indented. None wraps nothing."""
    if columns is None or columns - indent < _LEAST_TEXT:
        return text
    import textwrap  # compiles patterns, and is of use on a terminal only

    lines = textwrap.wrap(text, columns - indent, break_long_words=False, break_on_hyphens=False)
    return f"\n{'':{indent}}".join(lines)


def _width(columns: Sequence[Column]) -> int:
    return sum(map(padded_width, columns[:-1])) + max(map(len, columns[-1]))


def _aged(cell: str, now: datetime) -> str:
    from pinnace.api.values.relative_times import relative_time  # most tables need none

    found = re.fullmatch(_TIME, cell)
    return cell if found is None else relative_time(datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S %z"), now)
