"""Decorators that declare flags, for commands that are not declared as a struct yet."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import click

from pinnace.cli.declaring.commands import Command as Command
from pinnace.cli.declaring.commands import Group as Group
from pinnace.cli.declaring.commands import PagedCommand as PagedCommand
from pinnace.cli.declaring.parsing import as_typed as as_typed
from pinnace.cli.declaring.types import BOOLEANS as BOOLEANS
from pinnace.cli.declaring.types import Boolean as Boolean
from pinnace.cli.declaring.types import CommaList as CommaList
from pinnace.cli.declaring.types import DurationFlag as DurationFlag
from pinnace.cli.declaring.types import Enum as Enum
from pinnace.cli.declaring.types import KeyValueMap as KeyValueMap
from pinnace.cli.declaring.types import NameArgument as NameArgument
from pinnace.cli.declaring.types import Number as Number
from pinnace.cli.declaring.types import OrSelectorFlag as OrSelectorFlag
from pinnace.cli.declaring.types import SelectorFlag as SelectorFlag
from pinnace.cli.declaring.types import StringSlice as StringSlice
from pinnace.cli.declaring.types import WaitFlag as WaitFlag
from pinnace.cli.structs import Struct

S = TypeVar("S", bound=Struct)
R = TypeVar("R")


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

        return callback

    return decorate


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
