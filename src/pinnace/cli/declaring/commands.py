"""Makes click's commands and groups of what is declared."""

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import click

from pinnace.cli.declaring.fields import Arguments, Flag, FlagOption, Options, Section
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.declaring.parsing import words_for_click
from pinnace.cli.declaring.types import Boolean
from pinnace.cli.declaring.values import Value
from pinnace.cli.nouns import noun_of
from pinnace.cli.short_help import SHORT_HELP

S = TypeVar("S", bound=Options)

Examples = Sequence[tuple[str, str]]
"""A description, and the command line that does it, each: at least three of a command.

They are written for a shell; words after `>` and `|` are not for Pinnace.
"""

_NO_WORDS: Final[Mapping[str, str]] = {}

_KLOG_VALUES = (
    "--log_backtrace_at", "--log_dir", "--log_file", "--log_file_max_size",
    "--stderrthreshold", "--vmodule",
)  # fmt: skip
_KLOG_SWITCHES = (
    "--add_dir_header", "--alsologtostderr", "--logtostderr", "--skip_headers", "--skip_log_headers",
)  # fmt: skip


def hidden_option(
    name: str, callback: Callable[[click.Context, click.Parameter, Any], Any] | None = None, *, switch: bool
) -> click.Option:
    """A flag that no help shows and no struct has; `switch` for one without a value."""
    settings: dict[str, Any] = {"type": Boolean(), "metavar": ""} if switch else {}
    return FlagOption(
        [name],
        section=Section.OPTIONS,
        value=Boolean.value if switch else Value("VALUE"),
        hidden=True,
        default=None,
        expose_value=False,
        callback=callback,
        **settings,
    )


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        if value is not None:
            # The struct is frozen for all others: its flags come before and after the name of the command.
            vars(ctx.ensure_object(GlobalFlags))[name] = value
        return value

    return callback


@cache
def _global_options() -> tuple[click.Option, ...]:
    options: list[click.Option] = [
        declared.option(f"global_{name}", {}, expose_value=False, callback=_remember(name))
        for name, declared in GlobalFlags.__declared__.items()
        if isinstance(declared, Flag)
    ]
    # The flags of Go's client logger are accepted because scripts pass them; nothing here logs with it.
    options.extend(hidden_option(flag, switch=False) for flag in _KLOG_VALUES)
    options.extend(hidden_option(flag, switch=True) for flag in _KLOG_SWITCHES)
    return tuple(options)


def _with_called_name(text: str, ctx: click.Context) -> str:
    """Replace the program's name in the examples of a help text by the name that the user called."""
    return re.sub(r"\bpinnace (?=[a-z-])", f"{ctx.find_root().info_name} ", text)


class Command(click.Command):
    """A command that also takes the global flags, and parses as `parsing` describes.

    Attributes:
        examples: of its use, for the help.
        paged: whether output that is longer than the screen of a terminal is shown in a pager.
        exits_like_diff: whether exit code 1 means that objects differ, so that every error ends with 2.
    """

    def __init__(
        self,
        *args: Any,
        examples: Examples = (),
        paged: bool = False,
        exits_like_diff: bool = False,
        also: Iterable[click.Option] = (),
        **kwargs: Any,
    ) -> None:
        """Make a command. `also` are flags that no help shows and no struct has."""
        super().__init__(*args, **kwargs)
        self.params.extend(also)
        self.examples = examples
        self.paged = paged
        self.exits_like_diff = exits_like_diff
        taken = {opt for param in self.params for opt in param.opts}
        # `install` and `run-plugins` have a `--features` of their own, which hides the global one.
        self.params.extend(o for o in _global_options() if not taken.intersection(o.opts))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with words_for_click(ctx, args) as words:
            return super().parse_args(ctx, words)

    def invoke(self, ctx: click.Context) -> Any:
        if not self.paged or sys.stdout is None or not sys.stdout.isatty():
            return super().invoke(ctx)
        from pinnace.cli.pager import paged

        with paged():
            return super().invoke(ctx)

    def check_arguments(self, ctx: click.Context) -> None:
        """Refuse a wrong number of positional arguments. Raises click.UsageError."""
        for param in self.params:
            if isinstance(param, Arguments):
                param.check_number(ctx, ctx.params[param.name or ""])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags, by what they are about."""
        from pinnace.cli.declaring.sections import write_flags

        write_flags(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, in lines that can be pasted as they are."""
        if self.examples:
            with formatter.section("Examples"):
                for text, line in self.examples:
                    formatter.write(f"  # {text}\n  {line}\n")

    def get_help(self, ctx: click.Context) -> str:
        return _with_called_name(super().get_help(ctx), ctx)


def command(
    name: str,
    options: type[S],
    *,
    short_help: str,
    noun: str = "",
    words: Mapping[str, str] = _NO_WORDS,
    **settings: Any,
) -> Callable[[Callable[[click.Context, S], int | None]], Command]:
    """Declare a command: the function gets its context and its options.

    Args:
        noun: the words of the commands about such objects, whose names are its arguments.
        words: more of what stands for words in braces in the help of the flags.
        settings: those of `Command`; `help` is the function's docstring if it is not given.

    Raises:
        TypeError: a field of the struct has neither a flag nor a value.
    """
    known = options.__declared__.keys() | options.__struct_defaults__.keys()
    if unknown := set(options.__struct_fields__) - known:
        raise TypeError(f"{options.__name__}: no flag and no value: {', '.join(sorted(unknown))}")

    def decorate(function: Callable[[click.Context, S], int | None]) -> Command:
        def callback(**parameters: object) -> int | None:
            context = click.get_current_context()
            made.check_arguments(context)
            return function(context, options(**parameters))

        all_words = {**options.__words__, **words}
        parameters = [
            each.option(name, all_words) if isinstance(each, Flag) else Arguments(name, each, noun, all_words)
            for name, each in options.__declared__.items()
        ]
        made = Command(
            name,
            params=parameters,
            callback=callback,
            short_help=short_help,
            **{"help": function.__doc__, **settings},
        )
        return made

    return decorate


def lazy_command(name: str, options: type[S], work: str, *given: object, **settings: Any) -> Command:
    """Make a command of the function `work`, a `module:function` that is loaded when the command runs.

    It is named by a text, as a group names its commands: the work imports the struct of the declaration.

    Args:
        given: more arguments of the function, between the context and the options.
        settings: those of `command`; `help` is the docstring of the struct if it is not given.
    """

    def run(ctx: click.Context, chosen: S) -> int | None:
        code: int | None = loaded(work)(ctx, *given, chosen)
        return code

    return command(name, options, **{"help": options.__doc__, **settings})(run)


def loaded(place: str) -> Any:
    """What `module:attribute` names, loaded now."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


@click.pass_context
def _show_help(ctx: click.Context) -> None:
    """Show the help of a group that is called without a command, with global flags or without."""
    if ctx.invoked_subcommand is None:
        raise click.exceptions.NoArgsIsHelpError(ctx)


class Group(click.Group):
    """A group that takes the global flags and loads a command's module only when it is called."""

    command_class = Command

    def __init__(
        self,
        *args: Any,
        lazy: dict[str, str] | None = None,
        has_nouns: bool = False,
        **kwargs: Any,
    ) -> None:
        """Make a group.

        Args:
            lazy: the names of commands, and the `module:attribute` of each.
            has_nouns: whether its commands are nouns, so that other words for them are taken too.
        """
        kwargs = {"invoke_without_command": True, "callback": _show_help, **kwargs}
        super().__init__(*args, **kwargs)
        self.params.extend(_global_options())
        self.lazy = lazy or {}
        self.has_nouns = has_nouns

    def canonical(self, word: str) -> str:
        """The name of the command that another word for a noun means, as `bsl`; the word itself otherwise."""
        if not self.has_nouns or word in self.lazy or (noun := noun_of(word)) is None:
            return word
        return next((name for name in self.lazy if noun_of(name) == noun), word)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, [self.canonical(args[0]), *args[1:]])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with words_for_click(ctx, args) as words:
            return super().parse_args(ctx, words)

    def get_help(self, ctx: click.Context) -> str:
        return _with_called_name(super().get_help(ctx), ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = self.canonical(cmd_name)
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        command: click.Command = loaded(self.lazy[cmd_name])
        return command

    def shown_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands that the help lists."""
        return [name for name, _help in self.rows(ctx)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write commands and flags."""
        self.format_commands(ctx, formatter)
        from pinnace.cli.declaring.sections import write_flags

        write_flags(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(self.rows(ctx))

    def rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Name and short help of the commands. What SHORT_HELP has is not loaded, as that would take long."""
        rows = []
        for name in self.list_commands(ctx):
            text = SHORT_HELP.get(self.lazy.get(name, ""))
            if text is None:
                text = short_help_of(self.get_command(ctx, name))
            if text:
                rows.append((name, text))
        return rows


def short_help_of(command: click.Command | None) -> str:
    """The line for a command in lists; empty for one that no list shows: hidden, and without a short help."""
    if command is None or (command.hidden and not command.short_help):
        return ""
    return command.get_short_help_str(90)
