"""Declares the flags and arguments of a command as the fields of its struct of options.

    class LogsOptions(DownloadOptions, what="the log"):
        names: Sequence[str] = arguments("NAME")
        tail: int = flag(type=Number(whole=True), default=0, help="How many lines.")
        output_format: str = text("-o", "--output", help="How the log is written.")

A flag that gives no names has that of its field: `--tail`. A command embeds shared groups of flags as base
classes. The help lists the flags in the order of the fields: those of the base classes from left to right,
then a class's own but for those that say `before`; what is declared again keeps its place. A field with a
plain value is no flag: it has that value. One with neither is declared by another class that the command
embeds.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from inspect import get_annotations
from typing import Any, ClassVar, TypedDict, Unpack, cast, dataclass_transform

import click

from pinnace.cli.declaring.types import Boolean, CommaList, DurationFlag, KeyValueMap, StringSlice
from pinnace.cli.declaring.values import OF_NOUNS, Value, one_of
from pinnace.cli.nouns import bare_name
from pinnace.cli.structs import Struct


class Section(StrEnum):
    """The subject of a flag: the title above it in the help. The help has the titles in this order."""

    WHAT = "What"
    WHERE = "Where"
    VOLUMES = "Volumes"
    OUTPUT = "Output"
    OPTIONS = "Options"
    CONNECTION = "Connection"


class FlagOption(click.Option):
    """A flag of click that knows its section and the kind of its value."""

    def __init__(self, names: Sequence[str], *, section: Section, value: Value, **settings: Any) -> None:
        super().__init__(names, **{"metavar": value.word, **settings})
        self.section = section
        self.value = value


def value_of(option: click.Option) -> Value:
    """The kind of value of a flag: `--help` and `--version`, which click declares, are switches."""
    return option.value if isinstance(option, FlagOption) else one_of("true", "false")


class HelpPlacement(TypedDict, total=False):
    """Where a flag stands in the help, and what its value is called there.

    Attributes:
        section: the section; that of its class if not given.
        value: the kind of its value; that of its type if not given.
        before: the field of a base class above which it stands; below all of them if not given.
    """

    section: Section
    value: Value
    before: str


class Flag:
    """The declaration of a flag.

    Attributes:
        names: as the user writes them: `-o`, `--output`; without any, that of the field.
        help: the sentence about it; `{verb}` and the like stand for the words of the command's struct.
        place: see `HelpPlacement`.
        settings: what else click is to know of it.
    """

    __slots__ = ("help", "names", "place", "settings")

    def __init__(self, names: Sequence[str], help: str, place: HelpPlacement, **settings: Any) -> None:
        self.names = names
        self.help = help
        self.place = place
        self.settings = settings

    @property
    def default(self) -> Any:
        """The value of the field if the flag is not given; `...` where click has to make it of a text."""
        default = self.settings.get("default", ...)
        made = "callback" in self.settings or (isinstance(default, str) and "type" in self.settings)
        return ... if made else default

    def option(self, name: str, words: Mapping[str, str], **more: Any) -> FlagOption:
        """The flag for click. `name` is that of its parameter, `words` are those of the struct."""
        text = self.help
        if words and "{" in text:
            text = text.format_map(words)
            text = f"{text[0].upper()}{text[1:]}"
        return FlagOption(
            [*self.names, name],
            section=self.place.get("section", Section.OPTIONS),
            value=self.place.get("value") or _value_of(self.settings.get("type"), name),
            help=text,
            **self.settings,
            **more,
        )


def _value_of(type: object, name: str) -> Value:
    """The kind of value of a type, else the last word of the name: --node-agent-configmap CONFIGMAP."""
    known: Value | None = getattr(type, "value", None)
    if isinstance(type, click.Choice):
        known = one_of(*type.choices)
    return known or Value(name.rpartition("_")[2].upper())


def flag(*names: str, help: str, default: Any = None, show_default: bool = True, **settings: Any) -> Any:
    """Declare a flag of any type.

    Args:
        show_default: show a default that is a text, as the user would write it.
        settings: those of click.Option, as `type`, and of `HelpPlacement`.
    """
    place = {key: settings.pop(key) for key in HelpPlacement.__annotations__ if key in settings}
    if not settings.get("required"):
        settings["default"] = default
    if show_default and default and isinstance(default, str):
        settings["show_default"] = True
    return Flag(names, help, cast("HelpPlacement", place), **settings)


def text(*names: str, help: str, default: str = "", **place: Unpack[HelpPlacement]) -> str:
    """Declare a flag that takes any text."""
    return cast("str", flag(*names, help=help, default=default, **place))


def duration(*names: str, help: str, **settings: Any) -> Any:
    """Declare a flag that takes a Go duration. `settings` as in `flag`."""
    return flag(*names, help=help, type=DurationFlag(), **settings)


def switch(*names: str, help: str, default: bool = False, **place: Unpack[HelpPlacement]) -> bool:
    """Declare a yes-or-no flag."""
    return cast("bool", Flag(names, help, place, type=Boolean(), default=default, metavar=""))


def tristate(*names: str, help: str, **place: Unpack[HelpPlacement]) -> bool | None:
    """Declare a flag with three states: unset (None), true, false."""
    kind = Boolean(tristate=True)
    return cast("bool | None", Flag(names, help, place, type=kind, default=None, metavar=""))


def key_values(
    *names: str, help: str, separator: str = "=", **place: Unpack[HelpPlacement]
) -> Mapping[str, str]:
    """Declare a repeatable flag whose occurrences make one mapping: later ones add to it and win."""
    made = Flag(names, help, place, type=KeyValueMap(separator), multiple=True, callback=_merged)
    return cast("Mapping[str, str]", made)


def _merged(_ctx: click.Context, _param: click.Parameter, maps: Sequence[dict[str, str]]) -> Any:
    return {key: value for one in maps for key, value in one.items()}


def string_slice(
    *names: str, help: str, may_be_empty: bool = False, **place: Unpack[HelpPlacement]
) -> Sequence[str]:
    """Declare a repeatable flag whose occurrences make one list. `may_be_empty` as in `StringSlice`."""
    kind = StringSlice(may_be_empty=may_be_empty)
    return cast("Sequence[str]", Flag(names, help, place, type=kind, multiple=True, callback=_flattened))


def _flattened(_ctx: click.Context, _param: click.Parameter, lists: Sequence[Sequence[str]]) -> Any:
    return [item for one in lists for item in one]


def comma_list(
    *names: str, help: str, default: str | None = None, **place: Unpack[HelpPlacement]
) -> Sequence[str]:
    """Declare a comma-separated flag: a list, empty if the flag is not given."""
    made = Flag(names, help, place, type=CommaList(), default=default, callback=_never_none)
    return cast("Sequence[str]", made)


def _never_none(_ctx: click.Context, _param: click.Parameter, value: list[str] | None) -> Any:
    return value or []


class Arguments(click.Argument):
    """The positional arguments of a command.

    Attributes:
        values: the kind of value at each place; the last one is also for all that follow.
    """

    def __init__(self, name: str, declared: "Positional", noun: str, words: Mapping[str, str]) -> None:
        metavar = declared.metavar.format_map(words) if "{" in declared.metavar else declared.metavar
        super().__init__([name], nargs=-1, metavar=metavar, callback=self._bare)
        self.values = declared.values or (Value("NAME", OF_NOUNS.get(noun)),)
        self._noun = noun
        self._least, self._most = declared.least, declared.most
        self._places = [
            "" if "KIND" in place or "TEXT" in declared.metavar else place
            for place in declared.metavar.split()
        ]

    def value_at(self, position: int) -> Value:
        """The kind of value at a position, counted from 0."""
        return self.values[min(position, len(self.values) - 1)]

    def _bare(self, ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
        """The words; names of objects of the noun lose their type, which `-o name` prints in front."""
        try:
            return tuple(
                bare_name(word, self._noun) if self._places[min(at, len(self._places) - 1)] else word
                for at, word in enumerate(words)
            )
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None

    def check_number(self, context: click.Context, words: Sequence[str]) -> None:
        """Refuse a wrong number of them. Raises click.UsageError. (docs/spec: CLI 1.7)"""
        least, most, given = self._least, self._most, len(words)
        if least == most and given != least:
            problem = f"accepts {least} arg(s), received {given}"
        elif given < least:
            problem = f"requires at least {least} arg(s), only received {given}"
        elif most is not None and given > most:
            problem = f"accepts at most {most} arg(s), received {given}"
        else:
            return
        problem += f": {context.command_path} {self.make_metavar(context)}"
        if value := next((word for word in words if word in ("true", "false")), None):
            problem += f"; '=' joins a flag and {value}, as in --FLAG={value}"
        raise click.UsageError(problem)


class Positional:
    """The declaration of the positional arguments."""

    __slots__ = ("least", "metavar", "most", "values")

    def __init__(self, metavar: str, values: tuple[Value, ...], least: int, most: int | None) -> None:
        self.metavar = metavar
        self.values = values
        self.least = least
        self.most = most


def arguments(
    metavar: str, *values: Value, least: int | None = None, most: int | None = None
) -> Sequence[str]:
    """Declare the positional arguments, a sequence of words.

    Args:
        metavar: as the usage shows them: `NAME`, `[NAME...]`, `NAME KIND/NAME`.
        values: the kind of value at each place; without them, names of objects of the command's noun.
        least, most: how many are taken, where that differs from what `metavar` shows.
    """
    places = metavar.split()
    if least is None:
        least = sum(not place.startswith("[") for place in places)
    if most is None and "..." not in metavar:
        most = len(places)
    return cast("Sequence[str]", Positional(metavar, values, least, most))


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        flag,
        text,
        duration,
        switch,
        tristate,
        key_values,
        string_slice,
        comma_list,
        arguments,
    ),
)
class Options(Struct):
    """Base of the structs of options.

    Attributes:
        __declared__: the declarations of the fields that are flags or arguments.
        __words__: what stands for words in braces in the help of the flags.
    """

    __declared__: ClassVar[dict[str, Flag | Positional]] = {}
    __own__: ClassVar[dict[str, Flag | Positional]] = {}
    __words__: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, *, section: Section | None = None, **words: str) -> None:
        """Collect the declarations. `section` is that of the class's own flags that name none."""
        own = {name: each for name, each in vars(cls).items() if isinstance(each, Flag | Positional)}
        for name, each in own.items():
            delattr(cls, name)
            if isinstance(each, Flag):
                each.names = each.names or (f"--{name.replace('_', '-')}",)
                if section is not None:
                    each.place.setdefault("section", section)
                if (default := each.default) is not ...:
                    setattr(cls, name, default)
        super().__init_subclass__()
        cls.__own__ = own
        inherited = {word: text for base in reversed(cls.__mro__[1:]) for word, text in _words(base).items()}
        cls.__words__ = {**inherited, **words}
        cls.__declared__ = {
            name: found for name in _in_order(cls) if (found := _declared(cls, name)) is not None
        }


def _words(base: type) -> dict[str, str]:
    words: dict[str, str] = vars(base).get("__words__", {})
    return words


def _in_order(cls: type[Options]) -> list[str]:
    """The fields of a struct in the order of the help."""
    of_bases = [name for base in cls.__bases__ if issubclass(base, Options) for name in base.__declared__]
    names = [*dict.fromkeys((*of_bases, *get_annotations(cls)))]
    for name, declared in cls.__own__.items():
        if isinstance(declared, Flag) and (follower := declared.place.get("before")):
            names.remove(name)
            names.insert(names.index(follower), name)
    return names


def _declared(cls: type[Options], name: str) -> Flag | Positional | None:
    """What the nearest class that has the field says of it; None if it has a plain value there."""
    for base in cls.__mro__:
        own: dict[str, Flag | Positional] = vars(base).get("__own__", {})
        if name in own:
            return own[name]
        if name in vars(base):
            return None
    return None
