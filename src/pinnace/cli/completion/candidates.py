"""Finds the words that complete a command line: commands, flags, values. Pure, except for the names.

The names of objects come from a function that the caller passes. Other people chose these names: one that
could mean something to a shell is not offered at all, not even quoted.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import click

from pinnace.cli.completion.line import Line
from pinnace.cli.declaring.commands import Group
from pinnace.cli.declaring.fields import Arguments, value_of
from pinnace.cli.declaring.types import CommaList, KeyValueMap, StringSlice
from pinnace.cli.declaring.values import CompletionSource, Value

HARMLESS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:/%+-]{0,252}")
"""The names that are offered. No character of them means anything to a shell, nor to a terminal."""
PROCESSES: Final = frozenset({"server", "node-agent"})
"""Commands that pods run, and that are therefore not offered."""

Names = Callable[[CompletionSource, Line], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The completions of a word.

    Attributes:
        words: each with a line about it, which may be empty.
        paths: set if the shell completes files (`FILES`) or folders itself instead.
        prefix: the part of the word in front of a path.
    """

    words: tuple[tuple[str, str], ...] = ()
    paths: CompletionSource | None = None
    prefix: str = ""


def candidates(line: Line | None, names: Names) -> Candidates:
    """The completions of the last word of a line."""
    if line is None:
        return Candidates()
    if line.option is not None:
        return _values(line, value_of(line.option), names)
    if line.typed.startswith("-") and not line.only_arguments:
        return _beginning(line.typed, _flags(line))
    if isinstance(line.command, Group):
        return _beginning(line.typed, _commands(line.command, line.context))
    return _arguments(line, names)


def _beginning(typed: str, rows: Iterable[tuple[str, str]]) -> Candidates:
    return Candidates(tuple((word, text) for word, text in rows if word.startswith(typed)))


def _commands(group: Group, context: click.Context) -> list[tuple[str, str]]:
    return [(name, text) for name, text in group.rows(context) if name not in PROCESSES]


def _flags(line: Line) -> list[tuple[str, str]]:
    """The long names of flags, without given ones that may be given only once."""
    rows = []
    for param in line.command.get_params(line.context):
        if not isinstance(param, click.Option) or param.hidden:
            continue
        if param.name in line.flags and not (param.multiple or isinstance(param.type, CommaList)):
            continue
        text = (param.help or "").replace("\b", " ").split(". ")[0].rstrip(".")
        rows += [(opt, " ".join(text.split())) for opt in param.opts if opt.startswith("--")]
    return rows


def _arguments(line: Line, names: Names) -> Candidates:
    """The completions of a positional argument; a name that is given already is not offered."""
    declared = next((param for param in line.command.params if isinstance(param, Arguments)), None)
    position, places = len(line.arguments), ((declared and declared.metavar) or "").split()
    if declared is None or (position >= len(places) and "..." not in places[-1]):
        return Candidates()
    value = declared.value_at(position)
    if value.source is CompletionSource.COMMANDS:
        return _of_help(line)
    if value.source is CompletionSource.CODES:
        from pinnace.notices.explanations import EXPLANATIONS

        return _beginning(line.typed, [(str(code), each.meaning) for code, each in EXPLANATIONS.items()])
    found = _values(line, value, names)
    return Candidates(tuple((word, text) for word, text in found.words if word not in line.arguments))


def _of_help(line: Line) -> Candidates:
    """The commands that `help` explains, after those that are given, and its topics."""
    from pinnace.cli.usage.topics import TOPICS

    context = line.context.find_root()
    for word in line.arguments:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, Group) else None
        if found is None:
            return Candidates()
        context = click.Context(found, parent=context, info_name=word)
    if not isinstance(context.command, Group):
        return Candidates()
    topics = [] if line.arguments else [(topic, "A topic.") for topic in TOPICS]
    return _beginning(line.typed, [*context.command.rows(context), *topics])


def _values(line: Line, value: Value, names: Names) -> Candidates:
    if value.source in (CompletionSource.FILES, CompletionSource.FOLDERS):
        return Candidates(paths=value.source, prefix=line.prefix)
    many = line.option is not None and isinstance(line.option.type, CommaList | StringSlice | KeyValueMap)
    head, comma, _ = line.typed.rpartition(",") if many else ("", "", "")
    given = set(head.split(",")) | set(line.arguments)
    begun = f"{line.prefix}{head}{comma}"
    after = getattr(line.option.type, "separator", "") if line.option is not None else ""
    found = list(value.words)
    if value.source is CompletionSource.PROVIDERS:
        from pinnace.storage.providers import PROVIDERS

        found += sorted(name.removeprefix("velero.io/") for name in PROVIDERS)
    elif value.source is not None:
        found += sorted({name for name in names(value.source, line) if HARMLESS.fullmatch(name)})
    wanted = f"{line.prefix}{line.typed}"
    return Candidates(
        tuple(
            (word, "")
            for word in (f"{begun}{name}{after}" for name in found if name not in given)
            if word.startswith(wanted)
        )
    )
