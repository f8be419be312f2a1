"""Prints items, one at a time where there are very many. What came from a backup cannot steer a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import printable
from pinnace.cli.output.printing import encode

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
    shown = [[printable(cell).replace("\n", "\\n").replace("\t", "\\t") for cell in row] for row in rows]
    if not shown:
        return
    widths = [max(len(column), *(len(row[at]) for row in shown)) + 3 for at, column in enumerate(columns)]
    for row in ([*columns], *shown):
        line = "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def print_data(value: Mapping[str, Any] | Sequence[Any], form: str) -> None:
    """Print JSON or YAML."""
    click.echo(encode(value, form).rstrip("\n"))


def size_text(size_bytes: int) -> str:
    """`512`, `1.5Ki`, `3.0Mi`: a size as Kubernetes writes it."""
    size, unit = float(size_bytes), ""
    for unit in ("", "Ki", "Mi", "Gi", "Ti"):
        if size < 1024 or unit == "Ti":
            break
        size /= 1024
    return f"{size_bytes}" if not unit else f"{size:.1f}{unit}"
