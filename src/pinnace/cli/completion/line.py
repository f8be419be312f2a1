"""Reads a command line that is still being typed: its command, flags, arguments and last word. Pure.

Unlike a parser it never fails: a line that leads nowhere is None, and nothing is offered for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click

from pinnace.cli.declaring.commands import Group
from pinnace.cli.declaring.types import Boolean


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A command line whose last word is to be completed.

    Attributes:
        command: the command or group that the words lead to.
        words: the command's words, as typed.
        flags: the values of the flags that were given, by the parameter's name; the last one of each.
        arguments: the words so far that are no flags.
        option: the flag whose value is typed; None for every other word.
        prefix: the part of the last word in front of the value: `--output=`, or empty.
        typed: the value, or the last word, as far as it is typed.
        only_arguments: whether `--` was given; no later word is a flag.
    """

    command: click.Command
    context: click.Context
    words: tuple[str, ...]
    flags: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    option: click.Option | None = None
    prefix: str = ""
    typed: str = ""
    only_arguments: bool = False


def read_line(root: click.Group, words: Sequence[str]) -> Line | None:
    """Read the words after the program's name. The last is being typed. None if one is unknown."""
    *before, typed = words or [""]
    reader = _Reader(root)
    rest = iter(before)
    for word in rest:
        if not reader.take(word, rest):
            return None
    return reader.line(typed)


class _Reader:
    def __init__(self, root: click.Group) -> None:
        self._command: click.Command = root
        self._context = click.Context(root)
        self._words: list[str] = []
        self._flags: dict[str, str] = {}
        self._arguments: list[str] = []
        self._open: click.Option | None = None
        self._only_arguments = False

    def take(self, word: str, rest: Iterator[str]) -> bool:
        """Read a whole word, and the next one if that is its value. Returns False for an unknown word."""
        if word == "--" and not self._only_arguments:
            self._only_arguments = True
            return True
        if word.startswith("-") and len(word) > 1 and not self._only_arguments:
            return self._take_flag(word, rest)
        if isinstance(self._command, Group):
            return self._enter(word)
        self._arguments.append(word)
        return True

    def _take_flag(self, word: str, rest: Iterator[str]) -> bool:
        option, _prefix, value = self._flag_in(word)
        if option is None:
            return False
        if value is None and takes_value(option):
            value = next(rest, None)
            if value is None:
                self._open = option
        if option.name and value is not None:
            self._flags[option.name] = value
        return True

    def _flag_in(self, word: str) -> tuple[click.Option | None, str, str | None]:
        """The flag of a word, the part in front of its value, and the value if the word has one."""
        options = {opt: param for param in self._command.params for opt in param.opts}
        name, sign, value = word.partition("=")
        if not word.startswith("--"):
            name = word[:2]
            sign, value = word[2:3], word[2:].removeprefix("=")
        option = options.get(name)
        if not isinstance(option, click.Option):
            return None, "", None
        return option, word[: len(word) - len(value)] if sign else "", value if sign else None

    def _enter(self, word: str) -> bool:
        assert isinstance(self._command, Group)
        word = self._command.canonical(word)
        found = self._command.get_command(self._context, word)
        if found is None:
            return False
        self._words.append(word)
        self._command, self._context = found, click.Context(found, parent=self._context, info_name=word)
        return True

    def line(self, typed: str) -> Line:
        """The command line, with the word that is being typed."""
        option, prefix, value = self._open, "", typed
        if option is None and not self._only_arguments and typed[:1] == "-" and typed != "--":
            found, start, inside = self._flag_in(typed)
            # `--output=js` and `-ojs`; a boolean has its value behind the sign only.
            if found is not None and inside is not None and ("=" in typed or takes_value(found)):
                option, prefix, value = found, start, inside
        return Line(
            command=self._command,
            context=self._context,
            words=tuple(self._words),
            flags=self._flags,
            arguments=tuple(self._arguments),
            option=option,
            prefix=prefix,
            typed=value,
            only_arguments=self._only_arguments,
        )


def takes_value(option: click.Option) -> bool:
    """Whether the next word is the flag's value; a boolean takes one only with `=`."""
    if option.is_flag or option.count:
        return False
    return not (isinstance(option.type, Boolean) and option.type.bare)
