"""Flag types and commands that parse like the compatible command line. (docs/spec: CLI 1.1, 1.8)

Four habits of that command line differ from click's own and are kept here:

* a boolean takes a value only with `=` (`--wait`, `--wait=false`; `--wait false` is an argument);
* a short flag may take its value with `=` (`-o=json`);
* global flags are accepted before and after the command's name;
* repeating a comma list replaces it, repeating a map or a slice adds to it.
"""

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, TypeVar

import click

from pinnace.api.values.digits import is_digits
from pinnace.cli.nouns import bare_name, noun_of
from pinnace.cli.settings import GlobalFlags
from pinnace.cli.structs import Struct
from pinnace.cli.words import BadFlagValue, check_text, flag_label

S = TypeVar("S", bound=Struct)
R = TypeVar("R")

_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})
BOOLEANS = _TRUE | _FALSE
"""The words that yes-or-no flags and settings know."""


class FlagType(click.ParamType[Any]):
    """A flag's type: subclasses implement `parse` and raise ValueError with the reason."""

    name = "string"

    def parse(self, value: str) -> Any:
        """Turn the text of one occurrence into its value. Raises ValueError."""
        raise ValueError(f"cannot parse {value!r}")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ValueError as error:
            raise BadFlagValue(value, flag_label(param), str(error)) from None


class CommaList(FlagType):
    """`a,b`: split at commas without trimming; repeating the flag replaces the earlier value.

    Args:
        may_be_empty: take an empty text for an empty list, and skip empty entries. Elsewhere they are
            refused: an unset variable of a script gives them, and no filter at all would mean everything.
    """

    name = "stringArray"

    def __init__(self, *, may_be_empty: bool = False) -> None:
        self.may_be_empty = may_be_empty

    def parse(self, value: str) -> list[str]:
        entries = value.split(",")
        return [entry for entry in entries if entry] if self.may_be_empty else _without_gaps(entries)


class StringSlice(FlagType):
    """A CSV record; repeating the flag adds to it (declare the option with multiple=True).

    Args:
        may_be_empty: take an empty text for an empty list.
    """

    name = "strings"

    def __init__(self, *, may_be_empty: bool = False) -> None:
        self.may_be_empty = may_be_empty

    def parse(self, value: str) -> list[str]:
        return [] if self.may_be_empty and not value else _without_gaps(_record(value))


def _record(value: str) -> list[str]:
    """The entries of one CSV record. Raises ValueError for a line break, or a quote out of place."""
    import csv  # few commands get such a list

    if not re.fullmatch(_RECORD, value):
        raise ValueError(f"it is no list: a line break, or a double quote that is not closed: {value}")
    return next(csv.reader([value], strict=True), None) or [""]


_FIELD: Final = r'(?:"(?:[^"\r\n]|"")*"|[^",\r\n]*)'
_RECORD: Final = rf"{_FIELD}(?:,{_FIELD})*"


def _without_gaps(entries: list[str]) -> list[str]:
    """The entries of a list. Raises ValueError for one that is empty or blank."""
    if not all(entry.strip() for entry in entries):
        where = "it is empty" if len(entries) == 1 else "an entry of the list is empty"
        raise ValueError(f"{where}: write a name, or leave it out (is a variable unset?)")
    return entries


class Number(FlagType):
    """A number within bounds.

    Args:
        whole: refuse fractions.
        least: the lowest number that is allowed. The highest is what an object can hold, 64 bits.
    """

    def __init__(self, *, whole: bool = False, least: int | None = None) -> None:
        self.name = "int" if whole else "float"
        self.whole = whole
        self.least = least

    def parse(self, value: str) -> float | int:
        try:
            if not re.fullmatch(_DIGITS, value) or len(value) > _MAX_DIGITS:
                raise ValueError(value)  # Python also reads other scripts' digits, blanks and 1_000
            number = int(value) if self.whole else float(value)
        except ValueError:
            raise ValueError(f"not a {'whole ' if self.whole else ''}number") from None
        if not -_MOST - 1 <= number <= _MOST:
            raise ValueError("the number is out of range")
        if self.least is not None and number < self.least:
            raise ValueError(f"it must be at least {self.least}")
        return number


class Verbosity(FlagType):
    """How much is said of what the command does, by the numbers of kubectl."""

    name = "int"

    def parse(self, value: str) -> int:
        digits = value.removeprefix("-")
        if not (is_digits(digits) and len(digits) < _MAX_DIGITS):
            raise ValueError("it is a number: -v=6 prints the requests that the command makes")
        return int(value)


_DIGITS: Final = r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"
_MAX_DIGITS: Final = 1000
_MOST: Final = 2**63 - 1


class KeyValueMap(FlagType):
    """`k=v,k2=v2`, split at the first separator; repeating the flag adds to it (multiple=True).

    An entry in double quotes is read whole, so that its value may have commas: `k=v,"k2=a,b"`.
    """

    name = "mapStringString"

    def __init__(self, separator: str = "=") -> None:
        self.separator = separator

    def parse(self, value: str) -> dict[str, str]:
        result: dict[str, str] = {}
        for entry in _entries(value):
            key, found, item = entry.partition(self.separator)
            if not found:
                raise ValueError(_not_of_this_form(entry, self.separator))
            if result.get(key, item) != item:
                raise ValueError(f"{key} is given twice, as {result[key]} and as {item}")
            result[key] = item
        return result


def _entries(value: str) -> list[str]:
    """The entries of a comma list. Raises ValueError for a quote that does not end."""
    if '"' not in value:
        return value.split(",")
    import csv

    try:
        return next(csv.reader([value], strict=True))
    except csv.Error as error:
        raise ValueError(f"a double quote is not closed, or text follows it: {value} ({error})") from None


def _not_of_this_form(entry: str, separator: str) -> str:
    """The message about a wrong entry of a `key<separator>value` flag, with what was probably meant."""
    other = "=" if separator == ":" else ":"
    key, found, value = entry.partition(other)
    text = f'error parsing "{entry}"'
    if found and key and value:
        return f"{text}: write {key}{separator}{value}, with {separator!r} instead of {other!r}"
    return f"{text}: write KEY{separator}VALUE" if entry else text


class NameArgument(FlagType):
    """The name of an object that the command needs, without blanks around it; also as TYPE/NAME.

    An empty name comes from an unset variable of a script; taking it for "not given" would do something else.

    Args:
        noun: the words of the commands about such objects.
        may_be_empty: take an empty text for "not given".
    """

    name = "name"

    def __init__(self, noun: str, *, may_be_empty: bool = False) -> None:
        self.noun = noun
        self.may_be_empty = may_be_empty

    def parse(self, value: str) -> str:
        if not (name := value.strip()) and not self.may_be_empty:
            raise ValueError("it is empty: write a name, or leave the flag out (is a variable unset?)")
        return bare_name(name, self.noun)


class DurationFlag(FlagType):
    """A Go duration such as `720h` or `1h30m`; also with days and weeks, as `30d` or `2w`."""

    name = "duration"

    def parse(self, value: str) -> Any:
        from pinnace.api.values.durations import Duration

        hours = re.sub(_DAYS, _as_hours, value) if re.fullmatch(_WITH_DAYS, value) else value
        try:
            return Duration.parse(hours)
        except ValueError as error:
            raise ValueError(f"{error}; write for example 90m, 72h, 30d or 2w") from None


class WaitFlag(DurationFlag):
    """How long a command waits: a duration longer than 0.

    Other programs read 0 as "for ever" or as "not at all", depending on the flag; so it is refused.
    """

    name = "wait"

    def parse(self, value: str) -> Any:
        duration = super().parse(value)
        if duration.nanoseconds <= 0:
            raise ValueError("it must be longer than 0; for a long wait write for example 24h")
        return duration


_WITH_DAYS: Final = r"[+-]?(?:[0-9]{1,6}[wd])+(?:[0-9.]+[a-zµ]+)*"
_DAYS: Final = r"([0-9]{1,6})([wd])"


def _as_hours(found: re.Match[str]) -> str:
    return f"{int(found[1]) * (168 if found[2] == 'w' else 24)}h"


class SelectorFlag(FlagType):
    """A label selector, kept as the structure that goes into an object's spec."""

    name = "labelSelector"

    def parse(self, value: str) -> Any:
        from pinnace.api.selection.selectors import parse_label_selector

        return parse_label_selector(value)


class OrSelectorFlag(FlagType):
    """Label selectors with ` or ` between them, kept as the structures that go into an object's spec."""

    name = "orLabelSelector"

    def parse(self, value: str) -> Any:
        from pinnace.api.selection.label_choice import parse_or_selectors

        return parse_or_selectors(value) if value else []


class Enum(FlagType):
    """One of a few words."""

    name = "string"

    def __init__(self, *words: str) -> None:
        self.words = words

    def parse(self, value: str) -> str:
        if value not in self.words:
            known = " or ".join(filter(None, (", ".join(self.words[:-1]), self.words[-1])))
            raise ValueError(f'invalid value: "{value}"; write {known}')
        return value


class Boolean(FlagType):
    """A boolean.

    Args:
        tristate: an empty value means unset.
        bare: the flag alone means true, and a value needs `=`; otherwise there must be a value.
    """

    name = "boolean"

    def __init__(self, *, tristate: bool = False, bare: bool = True) -> None:
        self.tristate = tristate
        self.bare = bare

    def parse(self, value: str) -> bool | None:
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        if self.tristate and value == "":
            return None
        raise ValueError(f'strconv.ParseBool: parsing "{value}": invalid syntax')


def boolean(*names: str, help: str) -> Callable[[Any], Any]:
    """Declare a yes-or-no flag that is off by default."""
    return click.option(*names, type=Boolean(), default=False, help=help, metavar="")


def optional_boolean(*names: str, help: str) -> Callable[[Any], Any]:
    """Declare a flag with three states: unset (None), true, false."""
    return click.option(*names, type=Boolean(tristate=True), default=None, help=help, metavar="")


def key_values(*names: str, help: str, separator: str = "=") -> Callable[[Any], Any]:
    """Declare a repeatable flag whose occurrences make one mapping: later ones add to it and win."""

    def merged(_ctx: click.Context, _param: click.Parameter, maps: Sequence[dict[str, str]]) -> Any:
        return {key: value for one in maps for key, value in one.items()}

    return click.option(*names, type=KeyValueMap(separator), multiple=True, callback=merged, help=help)


def string_slice(*names: str, help: str, may_be_empty: bool = False) -> Callable[[Any], Any]:
    """Declare a repeatable flag whose occurrences make one list. `may_be_empty` as in `StringSlice`."""

    def flattened(_ctx: click.Context, _param: click.Parameter, lists: Sequence[Sequence[str]]) -> Any:
        return [item for one in lists for item in one]

    return click.option(
        *names, type=StringSlice(may_be_empty=may_be_empty), multiple=True, callback=flattened, help=help
    )


def comma_list(*names: str, help: str, default: str | None = None) -> Callable[[Any], Any]:
    """Declare a comma-separated flag: a list, empty if the flag is not given."""

    def never_none(_ctx: click.Context, _param: click.Parameter, value: list[str] | None) -> Any:
        return value or []

    return click.option(*names, type=CommaList(), default=default, callback=never_none, help=help)


def takes(options: type[S]) -> Callable[[Callable[[click.Context, S], R]], Callable[..., R]]:
    """Call a command's function with its context and its parameters as one struct.

    The names of the parameters are the struct's fields; a field with a default may lack a parameter.
    `Command` refuses to be made when they do not agree.
    """

    def decorate(function: Callable[[click.Context, S], R]) -> Callable[..., R]:
        @wraps(function)
        def callback(**parameters: object) -> R:
            return function(click.get_current_context(), options(**parameters))

        callback.__dict__[_STRUCT] = options
        return callback

    return decorate


_STRUCT = "takes_options"


def _check_struct(command: click.Command) -> None:
    """Compare a command's parameters with the fields of its struct. Raises TypeError with the difference."""
    options: type[Struct] | None = getattr(command.callback, _STRUCT, None)
    if options is None:
        return
    parameters = {param.name for param in command.params if param.expose_value}
    known = set(options.__struct_fields__)
    if wrong := (parameters - known) | (known - options.__struct_defaults__.keys() - parameters):
        raise TypeError(
            f"{options.__name__} and the parameters of {command.name} differ in {sorted(map(str, wrong))}"
        )


def check_arguments(
    arguments: Sequence[str], *, exactly: int | None = None, least: int | None = None, most: int | None = None
) -> None:
    """Refuse a wrong number of positional arguments. Raises click.UsageError. (docs/spec: CLI 1.7)"""
    if exactly is not None and len(arguments) != exactly:
        raise click.UsageError(f"accepts {exactly} arg(s), received {len(arguments)}{_usage_form()}")
    if least is not None and len(arguments) < least:
        raise click.UsageError(
            f"requires at least {least} arg(s), only received {len(arguments)}{_usage_form()}"
        )
    if most is not None and len(arguments) > most:
        raise click.UsageError(f"accepts at most {most} arg(s), received {len(arguments)}{_usage_form()}")


def _usage_form() -> str:
    """The running command with its arguments, as `: pinnace backup logs NAME`; empty outside of a command."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ""
    words = [
        param.make_metavar(context) for param in context.command.params if isinstance(param, click.Argument)
    ]
    return f": {' '.join([context.command_path, *words])}"


_KLOG_VALUES = (
    "--log_backtrace_at", "--log_dir", "--log_file", "--log_file_max_size",
    "--stderrthreshold", "--vmodule",
)  # fmt: skip
_KLOG_SWITCHES = (
    "--add_dir_header", "--alsologtostderr", "--logtostderr", "--skip_headers", "--skip_log_headers",
)  # fmt: skip


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        if value is not None:
            setattr(ctx.ensure_object(GlobalFlags), name, value)
        return value

    return callback


def _global_options() -> list[click.Option]:
    def option(name: str, *decls: str, type: click.ParamType[Any] | None = None, help: str) -> click.Option:
        return click.Option(
            [*decls, f"global_{name}"], type=type, expose_value=False, callback=_remember(name), help=help
        )

    options = [
        option(
            "kubeconfig", "--kubeconfig", help="Kubeconfig file; default $KUBECONFIG, then ~/.kube/config."
        ),
        option(
            "kubecontext", "--kubecontext", help="Context of the kubeconfig; default its current context."
        ),
        option("namespace", "-n", "--namespace", help="Namespace of the server and its objects."),
        option(
            "location",
            "--location",
            help="Work without a server on this location: a folder or s3://bucket/prefix.",
        ),
        option(
            "features",
            "--features",
            type=CommaList(may_be_empty=True),
            help="Feature flags, comma-separated.",
        ),
        option(
            "api_timeout",
            "--api-timeout",
            type=WaitFlag(),
            help="How long to wait for an API server that went away, before a request fails; default 5m.",
        ),
        option(
            "colorized",
            "--colorized",
            type=Boolean(tristate=True, bare=False),
            help="Colour in describe: true or false.",
        ),
        option(
            "verbosity",
            "-v",
            "--v",
            type=Verbosity(),
            help="From 6 on print each request to stderr, from 7 its headers, from 8 those of the answer.",
        ),
    ]
    # The flags of Go's client logger are accepted because scripts pass them; nothing here logs with it.
    options.extend(click.Option([flag], expose_value=False, hidden=True) for flag in _KLOG_VALUES)
    options.extend(click.Option([f], expose_value=False, hidden=True, type=Boolean()) for f in _KLOG_SWITCHES)
    return options


@contextmanager
def _named(ctx: click.Context) -> Iterator[None]:
    """Attach the command to usage errors: click leaves it out of some."""
    try:
        yield
    except click.UsageError as error:
        error.ctx = error.ctx or ctx
        raise


def _in_click_form(params: Sequence[click.Parameter], args: Sequence[str]) -> list[str]:
    """Rewrite words to the forms that click expects: `--flag` to `--flag=true`, `-o=json` to `-o json`.

    Otherwise a bare boolean would take the next word as its value, and `=` would become a part of the value.
    The word after a flag that needs a value is that value, whatever it looks like. After a flag whose value
    may be left out, as that of `--dry-run`, it is the value only if it is one of those to choose from.
    """
    options = {
        opt: param
        for param in params
        if isinstance(param, click.Option) and not param.is_flag
        for opt in param.opts
    }
    bare = {opt: max(param.opts, key=len) for opt, param in options.items() if _is_bare(param)}
    words = deque(args)
    rewritten: list[str] = []
    while words:
        word = words.popleft()
        if word == "--":
            return [*rewritten, word, *words]
        if word in bare:
            rewritten.append(f"{bare[word]}=true")
        elif word in options and _stands_alone(options[word], words):
            rewritten.append(f"{word}={options[word].flag_value}")
        elif word in options:
            rewritten.append(word)
            if words:
                rewritten.append(words.popleft())
        elif word[2:3] == "=" and (short := word[:2]) in options:
            rewritten += [f"{bare[short]}{word[2:]}"] if short in bare else [short, word[3:]]
        else:
            rewritten.append(word)
    return rewritten


def _stands_alone(option: click.Option, following: Sequence[str]) -> bool:
    """Whether a flag is given without its value, which may be left out."""
    if not isinstance(option.type, click.Choice) or not isinstance(option.flag_value, str):
        return False
    return not following or following[0] not in option.type.choices


def _is_bare(option: click.Option) -> bool:
    return isinstance(option.type, Boolean) and option.type.bare


def _with_called_name(text: str, ctx: click.Context) -> str:
    """Replace the program's name in the examples of a help text by the name that the user called."""
    return re.sub(r"\bpinnace (?=[a-z-])", f"{ctx.find_root().info_name} ", text)


_TYPED: Final = "pinnace.typed"
"""Where a context keeps the words of the command, without the values behind `=`."""


def as_typed(ctx: click.Context, message: str) -> str:
    """The message with each flag that has several names under the one that the user typed."""
    typed = ctx.meta.get(_TYPED, [])
    for param in ctx.command.params:
        used = next((name for name in param.opts if name in typed), None)
        for name in param.opts if used else ():
            message = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", str(used), message)
    return message


class Command(click.Command):
    """A command that also takes the global flags and parses booleans as described above.

    Attributes:
        exits_like_diff: whether exit code 1 means that objects differ, so that every error ends with 2.
    """

    exits_like_diff = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check_struct(self)
        taken = {opt for param in self.params for opt in param.opts}
        # `install` and `run-plugins` have a `--features` of their own, which hides the global one.
        self.params.extend(o for o in _global_options() if not taken.intersection(o.opts))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = [word.partition("=")[0] for word in args]
        with _named(ctx):
            words = _in_click_form(self.params, args)
            check_text(ctx, words)
            return super().parse_args(ctx, words)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags, by what they are about."""
        from pinnace.cli.usage.sections import write_flags

        write_flags(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        from pinnace.cli.usage.examples import write_examples

        write_examples(ctx, formatter)

    def get_help(self, ctx: click.Context) -> str:
        return _with_called_name(super().get_help(ctx), ctx)


class PagedCommand(Command):
    """A command whose output is shown in a pager if it is longer than the screen of a terminal."""

    def invoke(self, ctx: click.Context) -> Any:
        if sys.stdout is None or not sys.stdout.isatty():
            return super().invoke(ctx)
        from pinnace.cli.pager import paged

        with paged():
            return super().invoke(ctx)


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
        lazy: dict[str, tuple[str, str]] | None = None,
        has_nouns: bool = False,
        **kwargs: Any,
    ) -> None:
        """Make a group.

        Args:
            lazy: a command's name, and its (`module:attribute`, one line of help); no help = hidden.
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
        with _named(ctx):
            words = _in_click_form(self.params, args)
            check_text(ctx, words)
            return super().parse_args(ctx, words)

    def get_help(self, ctx: click.Context) -> str:
        return _with_called_name(super().get_help(ctx), ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = self.canonical(cmd_name)
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        import importlib

        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def shown_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands that the help lists."""
        return [name for name, _help in self.rows(ctx)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write commands and flags."""
        self.format_commands(ctx, formatter)
        from pinnace.cli.usage.sections import write_flags

        write_flags(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(self.rows(ctx))

    def rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Name and help of the commands, without importing them, as that would take long."""
        rows = []
        for name in self.list_commands(ctx):
            if name in self.lazy:
                text = self.lazy[name][1]
            else:
                command = super().get_command(ctx, name)
                text = "" if command is None or command.hidden else command.get_short_help_str(90)
            if text:
                rows.append((name, text))
        return rows
