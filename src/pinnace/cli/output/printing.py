"""Printing: tables as the compatible command line lays them out, JSON, YAML. (docs/spec: CLI 2)"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from pinnace.api.objects import JSONObject
from pinnace.cli.flags import boolean, comma_list
from pinnace.cli.guard import printable

FORMATS = ("table", "json", "yaml")


_LATE_CONTROLS = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What a terminal obeys or is not shown (`guard.printable`), and JSON allows in its strings."""
_AMBIGUOUS = re.compile(
    r"y|n|yes|no|on|off|true|false|null|~|=|<<"
    r"|[-+]?\.?[0-9][0-9a-f_.,:xo+-]*"
    r"|[-+]?\.[0-9_.]+"
    r"|[-+]?\.(?:inf|nan)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*",
    re.IGNORECASE,
)
"""Text that some reader of YAML takes for something else. kubectl's is of version 1.1, with more words for
booleans, octal and sexagesimal numbers; those of 1.2 know `1e3` and `0o14`."""
_NEEDS_ESCAPES = re.compile(rf"[\x00-\x08\x0b-\x1f\ufeff]|{_LATE_CONTROLS.pattern}")
"""Control characters and what only one of the versions takes for the end of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags:
    """The flags that every `get` and `create` shares. `format` is None when `-o` was not given."""

    format: str | None
    label_columns: tuple[str, ...] = ()
    show_labels: bool = False


def output_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-o`, `--label-columns` and `--show-labels` to a command."""
    for decorate in (
        click.option("-o", "--output", "output_format", help="Output format: table, json, yaml or name."),
        comma_list("--label-columns", help="Labels to show as columns."),
        boolean("--show-labels", help="Show all labels in the last column."),
    ):
        function = decorate(function)
    return function


def data_format(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-o json|yaml` to a command whose usual output is text."""
    choice = click.Choice(FORMATS[1:])
    return click.option("-o", "--output", "output_format", type=choice, help="Print data: json or yaml.")(
        function
    )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The flags of `output_flags` as the user gave them."""

    output_format: str | None
    label_columns: Sequence[str] = ()
    show_labels: bool = False

    def printed(self, *, default: str | None = None) -> OutputFlags:
        """How to print, `default` being the format without `-o`. Raises click.UsageError for a wrong one."""
        chosen = self.output_format or default
        if chosen is not None and chosen not in (*FORMATS, "name"):
            raise click.UsageError(
                f"invalid output format \"{chosen}\" - valid values are 'table', 'json', and 'yaml'"
            )
        return OutputFlags(
            format=chosen, label_columns=tuple(self.label_columns), show_labels=self.show_labels
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """How objects of one kind become rows: column names and a function from object to cells.

    A column of `optional` is left out when all its cells are empty.
    """

    columns: tuple[str, ...]
    row: Callable[[JSONObject], Sequence[str]]
    sort: Callable[[list[JSONObject]], list[JSONObject]] = list
    optional: frozenset[str] = frozenset()


def print_objects(objects: Sequence[JSONObject], table: Table, flags: OutputFlags) -> None:
    """Print objects in the chosen form. A list of one prints as that object. (docs/spec: CLI 2.2)"""
    if flags.format == "name":
        for obj in objects:
            click.echo(f"{obj['kind'].lower()}.velero.io/{obj['metadata']['name']}")
    elif flags.format in ("json", "yaml"):
        click.echo(encode(objects[0] if len(objects) == 1 else object_list(objects), flags.format))
    else:
        click.echo(printable(render_table(table.sort(list(objects)), table, flags)), nl=False)


def object_list(objects: Sequence[JSONObject], kind: str | None = None) -> JSONObject:
    """Wrap objects of one kind into its List kind."""
    name = kind or (f"{objects[0]['kind']}List" if objects else "List")
    return {"apiVersion": "velero.io/v1", "kind": name, "metadata": {}, "items": list(objects)}


def encode(obj: Any, form: str) -> str:
    """JSON indented by two blanks, or YAML with sorted keys and its closing newline."""
    if form == "json":
        text = json.dumps(obj, indent=2, ensure_ascii=False)
        # They can only be inside of texts; JSON leaves them as they are, and a terminal would obey.
        return _LATE_CONTROLS.sub(_escaped, text)
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes what YAML 1.1 and 1.2 read alike; shared values are written out each time."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_text(self, text: str) -> yaml.ScalarNode:
            # Keys come here too.
            style = '"' if _NEEDS_ESCAPES.search(text) else "'" if _AMBIGUOUS.fullmatch(text) else None
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, Dumper.represent_text)
    text = yaml.dump(obj, Dumper=Dumper, sort_keys=True, allow_unicode=True, default_flow_style=False)
    # Those that the dumper leaves as they are stand in double quotes only.
    return _LATE_CONTROLS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def render_table(objects: Iterable[JSONObject], table: Table, flags: OutputFlags) -> str:
    """Lay out a table: columns padded to max(6, widest + 3), the last not; nothing at all without rows."""
    rows = [[*table.row(obj), *_label_cells(obj, flags)] for obj in objects]
    if not rows:
        return ""
    header = [*table.columns, *(key.rpartition("/")[2].upper() for key in flags.label_columns)]
    header += ["LABELS"] if flags.show_labels else []
    columns = [
        column
        for column in zip(header, *rows, strict=True)
        if column[0] not in table.optional or any(column[1:])
    ]
    padded = [_padded(column) for column in columns[:-1]]
    return "".join("".join(line) + "\n" for line in zip(*padded, columns[-1], strict=True))


def _padded(column: Sequence[str]) -> list[str]:
    width = max(6, max(map(len, column)) + 3)
    return [cell.ljust(width) for cell in column]


def _label_cells(obj: JSONObject, flags: OutputFlags) -> list[str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    cells = [labels.get(key, "") for key in flags.label_columns]
    if flags.show_labels:
        cells.append(",".join(f"{k}={v}" for k, v in sorted(labels.items())) or "<none>")
    return cells
