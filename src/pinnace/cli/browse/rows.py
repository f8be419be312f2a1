"""Prints items, in blocks if there are many. Text from a backup cannot steer a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

import click

from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import printable
from pinnace.cli.output.printing import encode

_LINES_AT_ONCE: Final = 1000
FORMATS = ("table", "wide", "json", "yaml", "name")


def check_format(chosen: str | None, allowed: Sequence[str] = FORMATS) -> str:
    """The format of `-o`, `table` without one. Raises InvalidInput for one that is not `allowed`."""
    if chosen is None:
        return "table"
    if chosen not in allowed:
        raise InvalidInput(f'invalid output format "{chosen}" - valid values are {", ".join(allowed)}')
    return chosen


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns as wide as their widest cell; nothing without rows."""
    shown = [[in_one_line(cell) for cell in row] for row in rows]
    if not shown:
        return
    widths = [max(map(len, cells)) + 3 for cells in zip(columns, *shown, strict=True)]
    lines = ("".join(map(str.ljust, row, widths)).rstrip() for row in chain([columns], shown))
    while block := list(islice(lines, _LINES_AT_ONCE)):
        click.echo("\n".join(block))


def in_one_line(text: str) -> str:
    """Text with its control characters, newlines and tabs escaped."""
    return text if text.isprintable() else printable(text).replace("\n", "\\n").replace("\t", "\\t")


def print_data(value: Mapping[str, Any] | Sequence[Any], form: str) -> None:
    """Print JSON or YAML."""
    click.echo(encode(value, form).rstrip("\n"))


class DataList:
    """Prints a list as JSON or YAML in pieces: the text is that of `print_data` for the whole list."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._is_begun = False

    def add(self, values: Iterable[Mapping[str, Any]]) -> None:
        """Print members."""
        rest = iter(values)
        while block := list(islice(rest, _LINES_AT_ONCE)):
            shown = encode(block, self._form).rstrip("\n")
            if self._form == "json":
                shown = (",\n" if self._is_begun else "[\n") + shown.removeprefix("[\n").removesuffix("\n]")
            click.echo(shown, nl=self._form != "json")
            self._is_begun = True

    def end(self) -> None:
        """Print the end of the list."""
        if not self._is_begun:
            click.echo("[]")
        elif self._form == "json":
            click.echo("\n]")


def size_text(size_bytes: int) -> str:
    """`512`, `1.5Ki`, `3.0Mi`: a size as Kubernetes writes it."""
    size, unit = float(size_bytes), ""
    for unit in ("", "Ki", "Mi", "Gi", "Ti"):
        if size < 1024 or unit == "Ti":
            break
        size /= 1024
    return f"{size_bytes}" if not unit else f"{size:.1f}{unit}"
