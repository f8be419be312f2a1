"""Prints tables, in the layout of the compatible command line, and JSON and YAML. (docs/spec: CLI 2)"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from typing import Any, Final

import click

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import JSONObject
from pinnace.cli.declaring.fields import Options, Section, comma_list, flag, switch, text
from pinnace.cli.declaring.values import Value, formats
from pinnace.cli.errors import CommandError
from pinnace.cli.guard import complain, printable
from pinnace.cli.output.layout import echo_laid_out
from pinnace.cli.output.narrow import narrowed, padded_width, terminal_columns
from pinnace.cli.structs import Struct, replace

FORMATS = ("table", "json", "yaml")
_TEMPLATES = {
    "jsonpath": "jsonpath='{.items[*].metadata.name}'",
    "custom-columns": "custom-columns=NAME:.metadata.name,PHASE:.status.phase",
}


_LATE_CONTROLS: Final = r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
"""Characters that `guard.printable` escapes and that JSON allows unescaped in its strings."""
_AMBIGUOUS: Final = (
    r"(?i)y|n|yes|no|on|off|true|false|null|~|=|<<"
    r"|[-+]?\.?[0-9][0-9a-f_.,:xo+-]*"
    r"|[-+]?\.[0-9_.]+"
    r"|[-+]?\.(?:inf|nan)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"
)
"""Text that a reader of YAML may take for another type. kubectl reads version 1.1, which has more words for
booleans, and octal and sexagesimal numbers; readers of 1.2 know `1e3` and `0o14`."""
_NEEDS_ESCAPES: Final = rf"[\x00-\x08\x0b-\x1f\ufeff]|{_LATE_CONTROLS}"
"""Control characters, and characters that end a line in only one of the versions."""
_PIECES = 10_000
_DEEP_RECURSION = 20_000
"""Enough calls for 1024 levels, the most that the parsers read; YAML takes three for each level."""


class OutputFlags(Struct):
    """How to print, as the flags of a `get` or `create` say; `FormatOptions` has these flags.

    Attributes:
        format: None when `-o` was not given.
        template: the template of `jsonpath` or `custom-columns`.
        single: whether one object was asked for by name, so that it is not printed as a list.
        colour: whether phases are coloured.
        dry_run: whether nothing is to be sent.
        no_headers: whether tables have no line with the names of their columns.
        sort_by: the path of the field that objects are sorted by; empty for the order of the table.
    """

    format: str | None
    label_columns: tuple[str, ...] = ()
    show_labels: bool = False
    template: str = ""
    single: bool = False
    colour: bool = False
    dry_run: bool = False
    no_headers: bool = False
    sort_by: str = ""

    @property
    def sends(self) -> bool:
        """Whether a `create` does its work, or only prints the object. (docs/adr/061)"""
        return self.format in (None, "name") and not self.dry_run

    @contextmanager
    def naming(self, kind: str, group: str = "velero.io") -> Iterator[Callable[[str], None]]:
        """With `-o name` send all output to stderr until the context ends, and only the name to stdout.

        Yields:
            A function to call with the name of the object once it is created.
        """
        stdout = sys.stdout

        def named(name: str) -> None:
            if self.format == "name":
                click.echo(f"{kind.lower()}.{group}/{name}", file=stdout)

        if self.format != "name":
            yield named
            return
        with redirect_stdout(sys.stderr):
            yield named


class FormatOptions(Options):
    """How to print, as the user asked: what a command of this kind can have."""

    output_format: str | None
    label_columns: Sequence[str] = ()
    show_labels: bool = False
    dry_run: str | bool = "none"

    def printed(self, *, default: str | None = None) -> OutputFlags:
        """How to print, `default` being the format without `-o`. Raises click.UsageError for a wrong one."""
        given = self.output_format or default
        chosen, _, template = (given or "").partition("=")
        if given is not None and chosen not in (*FORMATS, "wide", "name", *_TEMPLATES):
            raise click.UsageError(
                f"invalid output format \"{given}\" - valid values are 'table', 'json', and 'yaml', and of "
                "kubectl's 'wide', 'name', 'jsonpath=TEMPLATE' and 'custom-columns=NAME:PATH,...'"
            )
        if chosen in _TEMPLATES:
            _check_template(chosen, template)
        elif template:
            raise click.UsageError(f'invalid output format "{given}" - {chosen} takes no value')
        return OutputFlags(
            format=chosen or None,
            label_columns=tuple(self.label_columns),
            show_labels=self.show_labels,
            template=template,
            single=default is None,  # what is created is one object
            dry_run=self.dry_run == "client",
        )

    @property
    def previews(self) -> bool:
        """Whether the command only shows what it would do."""
        return self.dry_run in ("cluster", "server")


class OutputOptions(FormatOptions, section=Section.OUTPUT):
    """How to print objects."""

    show_labels: bool = switch(help="Show all labels in the last column.")
    label_columns: Sequence[str] = comma_list(
        "-L", "--label-columns", value=Value("LABEL,..."), help="Labels to show as columns."
    )
    output_format: str | None = flag(
        "-o",
        "--output",
        value=formats("table", "wide", "json", "yaml", "name", "jsonpath=", "custom-columns="),
        help="Output: table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=NAME:PATH,...",
    )


class CreateOptions(OutputOptions):
    """How to print what is created, or what would be created."""

    dry_run: str = flag(
        type=click.Choice(["none", "client"]),
        default="none",
        section=Section.OUTPUT,
        before="show_labels",
        help="With client, print the object and send nothing.",
    )


class DataOptions(Options):
    """Whether a command whose usual output is text prints data."""

    output_format: str | None = flag(
        "-o",
        "--output",
        type=click.Choice(FORMATS[1:]),
        section=Section.OUTPUT,
        help="Print data: json or yaml.",
    )


class ListingOptions(OutputOptions, section=Section.OUTPUT):
    """How to print a list, as kubectl does."""

    sort_by: str = text(
        value=Value("FIELD"),
        help="Sort by a field, as .status.startTimestamp; objects without it come first.",
    )
    no_headers: bool = switch(help="Leave out the names of the columns.")
    watch: bool = switch("-w", "--watch", help="Print the objects, then each one that changes, until Ctrl-C.")

    def printed(self, *, default: str | None = None) -> OutputFlags:
        if self.sort_by:
            _check_path(self.sort_by)
        flags = super().printed(default=default)
        return replace(flags, no_headers=self.no_headers, sort_by=self.sort_by)


Columns = tuple[tuple[str, Callable[[JSONObject], str]], ...]
"""The name of each column, and the function that makes its cell of an object."""


class Table(Struct):
    """How objects of one kind become rows.

    A column of `optional` is left out when all its cells are empty; those of `wide` are shown with `-o wide`;
    those of `expendable` are left out in this order on a terminal that is too narrow for all.
    """

    columns: Columns
    sort: Callable[[list[JSONObject]], list[JSONObject]] = list
    optional: frozenset[str] = frozenset()
    expendable: tuple[str, ...] = ()
    wide: Columns = ()


def _title(obj: JSONObject) -> str:
    """Kind, group and name, as kubectl takes them: `backup.velero.io/b1`."""
    group = obj["apiVersion"].partition("/")[0]
    return f"{obj['kind'].lower()}.{group}/{obj['metadata']['name']}"


def print_unsent(obj: JSONObject, table: Table, flags: OutputFlags) -> None:
    """Print an object instead of sending it; says so if the form is not known for that. (docs/adr/061)"""
    print_objects([obj], table, replace(flags, single=True))
    if not flags.dry_run and flags.format not in ("json", "yaml"):
        complain(f"Nothing was sent: -o {flags.format} only prints. -o name creates, and so does no -o.")


def print_objects(objects: Sequence[JSONObject], table: Table, flags: OutputFlags) -> None:
    """Print objects in the chosen form. A list of one prints as that object. (docs/spec: CLI 2.2)"""
    if flags.dry_run and flags.format is None:
        for obj in objects:
            click.echo(f"{_title(obj)} created (dry run)")
    elif flags.format == "jsonpath":
        from pinnace.cli.output.jsonpath import compile_template

        whole = objects[0] if flags.single and len(objects) == 1 else object_list(objects)
        click.echo(printable(compile_template(flags.template)(whole)), nl=False)
        if sys.stdout.isatty():
            click.echo()
    elif flags.format == "custom-columns":
        from pinnace.cli.output.jsonpath import compile_columns

        own, headers = Table(columns=compile_columns(flags.template)), not flags.no_headers
        text = render_table(objects, own, OutputFlags(format=None, no_headers=flags.no_headers))
        echo_laid_out(text or (printable(_header(own)) if headers else ""))
    elif flags.format == "name":
        for obj in objects:
            click.echo(_title(obj))
    elif flags.format in ("json", "yaml"):
        click.echo(encode(objects[0] if len(objects) == 1 else object_list(objects), flags.format))
    else:
        room = terminal_columns() if flags.format != "wide" else None
        ordered = list(objects) if flags.sort_by else table.sort(list(objects))
        shown = render_table(ordered, table, flags, room=room)
        echo_laid_out(shown, colour=flags.colour or None)


def object_list(objects: Sequence[JSONObject], kind: str | None = None) -> JSONObject:
    """Wrap objects of one kind into its List kind."""
    name = kind or (f"{objects[0]['kind']}List" if objects else "List")
    return {"apiVersion": "velero.io/v1", "kind": name, "metadata": {}, "items": list(objects)}


def encode(obj: Any, form: str) -> str:
    """JSON indented by two blanks, or YAML with sorted keys and its closing newline."""
    with _deep_recursion():
        return _encode(obj, form)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Let the encoders, which recurse, write what the parsers read: up to 1024 levels."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, _DEEP_RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def _encode(obj: Any, form: str) -> str:
    if form == "json":
        return "".join(json_pieces(obj, indent=2))
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes what YAML 1.1 and 1.2 read alike; shared values are written out each time."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_text(self, text: str) -> yaml.ScalarNode:
            # Also called for keys.
            style = "'" if re.fullmatch(_AMBIGUOUS, text) else None
            style = '"' if re.search(_NEEDS_ESCAPES, text) else style
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, Dumper.represent_text)
    text = yaml.dump(obj, Dumper=Dumper, sort_keys=True, allow_unicode=True, default_flow_style=False)
    # The dumper leaves some of them unescaped, only in double quotes.
    return re.sub(_LATE_CONTROLS, _escaped, text)


def json_pieces(obj: Any, *, indent: int, sort_keys: bool = False) -> Iterator[str]:
    """JSON that a terminal can show, indented by so many blanks a level; in pieces, as it can be large."""
    pieces = json.JSONEncoder(indent=indent, sort_keys=sort_keys, ensure_ascii=False).iterencode(obj)
    while some := "".join(islice(pieces, _PIECES)):
        # They occur only in strings; JSON allows them there, but a terminal would obey them.
        yield re.sub(_LATE_CONTROLS, _escaped, some)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def in_order(objects: Sequence[JSONObject], flags: OutputFlags) -> Sequence[JSONObject]:
    """The objects sorted by the field of `--sort-by`: those without it first, numbers before texts.

    Raises:
        CommandError: no object has the field, so that its name is probably wrong.
    """
    if not flags.sort_by or not objects:
        return objects
    from pinnace.cli.output.jsonpath import compile_path, resolve, shown

    steps = compile_path(flags.sort_by.strip("{}"))
    values = [next(iter(resolve(steps, obj)), None) for obj in objects]
    if all(value is None for value in values):
        hint = "" if "." in flags.sort_by else "; a field is a path, as .metadata.creationTimestamp"
        raise CommandError(f"--sort-by: no object has the field {flags.sort_by}{hint}")

    def rank(value: Any) -> tuple[int, float, str]:
        if value is None:
            return 0, 0.0, ""
        is_number = isinstance(value, int | float)
        return (1, float(value), "") if is_number else (2, 0.0, shown(value))

    return [obj for _, obj in sorted(zip(values, objects, strict=True), key=lambda pair: rank(pair[0]))]


def render_table(
    objects: Iterable[JSONObject], table: Table, flags: OutputFlags, *, room: int | None = None
) -> str:
    """Lay out a table: columns padded to max(6, widest + 3), the last not; nothing at all without rows.

    The only control characters in it are colours of phases: those in cells are escaped.

    Args:
        room: the columns of a terminal; the table is made narrow enough for them. None changes nothing.
    """
    objects = list(objects)
    rows = [row_of(obj, table, flags) for obj in objects]
    if not rows:
        return ""
    header = [name for name, _ in _columns(table, flags)]
    header += [key.rpartition("/")[2].upper() for key in flags.label_columns]
    header += ["LABELS"] if flags.show_labels else []
    columns: list[Sequence[str]] = [
        column
        for column in zip(*(map(printable, row) for row in (header, *rows)), strict=True)
        if column[0] not in table.optional or any(column[1:])
    ]
    if room is not None:
        columns = [_created(column, objects) for column in columns]
        columns = narrowed(columns, room, table.expendable, SYSTEM_CLOCK.now())
    padded = [_painted(_padded(column), flags) for column in columns[:-1]]
    lines = zip(*padded, columns[-1], strict=True)
    return "".join("".join(line) + "\n" for line in islice(lines, int(flags.no_headers), None))


def row_of(obj: JSONObject, table: Table, flags: OutputFlags) -> list[str]:
    """The cells of an object, with those that the flags add."""
    return [*(cell(obj) for _, cell in _columns(table, flags)), *_label_cells(obj, flags)]


def _columns(table: Table, flags: OutputFlags) -> Columns:
    return table.columns + table.wide if flags.format == "wide" else table.columns


def _header(table: Table) -> str:
    return "   ".join(name for name, _ in table.columns) + "\n"


_PHASES: Final = frozenset({"STATUS", "PHASE", "REQUEST"})


def _painted(column: Sequence[str], flags: OutputFlags) -> Sequence[str]:
    """A padded column of phases in their colours."""
    if not flags.colour or column[0].rstrip(" ") not in _PHASES:
        return column
    from pinnace.cli.output.cells import painted

    return [column[0], *(cell.replace(cell.strip(), painted(cell.strip()), 1) for cell in column[1:])]


def _check_template(form: str, template: str) -> None:
    """Refuse a template before anything is fetched. Raises click.UsageError."""
    from pinnace.cli.output import jsonpath

    if not template:
        raise click.UsageError(f"-o {form} needs a value, as in -o {_TEMPLATES[form]}")
    try:
        (jsonpath.compile_columns if form == "custom-columns" else jsonpath.compile_template)(template)
    except ValueError as error:
        raise click.UsageError(f"invalid -o {form}: {error}") from error


def _created(column: Sequence[str], objects: Sequence[JSONObject]) -> Sequence[str]:
    """The column; in that of the creation, a run that has not begun has the time of its object.

    For people only: the compatible command line prints `<nil>`.
    """
    if column[0] != "CREATED":
        return column
    from pinnace.cli.output.cells import local_time

    times = (local_time(obj["metadata"].get("creationTimestamp"), "<nil>") for obj in objects)
    return [
        column[0],
        *(time if cell == "<nil>" else cell for cell, time in zip(column[1:], times, strict=True)),
    ]


def _check_path(path: str) -> None:
    """Refuse a field's path before anything is fetched. Raises click.UsageError."""
    from pinnace.cli.output import jsonpath

    try:
        jsonpath.compile_path(path.strip("{}"))
    except ValueError as error:
        raise click.UsageError(f"invalid --sort-by: {error}") from error


def _padded(column: Sequence[str]) -> list[str]:
    width = padded_width(column)
    return [cell.ljust(width) for cell in column]


def _label_cells(obj: JSONObject, flags: OutputFlags) -> list[str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    cells = [labels.get(key, "") for key in flags.label_columns]
    if flags.show_labels:
        cells.append(",".join(f"{k}={v}" for k, v in sorted(labels.items())) or "<none>")
    return cells
