"""The types of flags: what the text of a flag means, and what is refused. (docs/spec: CLI 1.1, 1.8)

A repeated comma list replaces the earlier one; a repeated map or slice adds to it.
"""

import re
from typing import Any, Final

import click

from pinnace.api.values.digits import is_digits
from pinnace.cli.declaring.values import SELECTOR, Value, one_of
from pinnace.cli.nouns import bare_name
from pinnace.cli.words import BadFlagValue, flag_label

_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})
BOOLEANS = _TRUE | _FALSE
"""The words that yes-or-no flags and settings know."""


class FlagType(click.ParamType[Any]):
    """A flag's type: subclasses implement `parse` and raise ValueError with the reason.

    Attributes:
        value: the kind of its value, unless the flag has one of its own; None for the last word of its name.
    """

    name = "string"
    value: Value | None = None

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
    value = Value("NAME,...")

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
    value = Value("NAME,...")

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

    value = Value("NUMBER")

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
    value = Value("NUMBER")

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
    value = Value("KEY=VALUE,...")

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
    value = Value("DURATION", like="90s, 10m, 4h")

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
    value = Value("DURATION", like="90s, 10m, 4h; longer than 0")

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
    value = SELECTOR

    def parse(self, value: str) -> Any:
        from pinnace.api.selection.selectors import parse_label_selector

        return parse_label_selector(value)


class OrSelectorFlag(FlagType):
    """Label selectors with ` or ` between them, kept as the structures that go into an object's spec."""

    name = "orLabelSelector"
    value = Value("SELECTORS")

    def parse(self, value: str) -> Any:
        from pinnace.api.selection.label_choice import parse_or_selectors

        return parse_or_selectors(value) if value else []


class Enum(FlagType):
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.value = one_of(*words)

    def parse(self, value: str) -> str:
        if value not in self.words:
            known = " or ".join(filter(None, (", ".join(self.words[:-1]), self.words[-1])))
            raise ValueError(f'invalid value: "{value}"; write {known}')
        return value


class BackupTypeFlag(FlagType):
    """How volumes are read, in any case. (docs/spec/after-1.18.md, 5.2)"""

    words = ("Full", "Incremental")
    value = one_of(*words)

    def parse(self, value: str) -> str:
        for word in self.words:
            if value.lower() == word.lower():
                return word
        raise ValueError(f"invalid backup type {value} - valid values are 'Incremental', and 'Full'")


class Boolean(FlagType):
    """A boolean.

    Args:
        tristate: an empty value means unset.
        bare: the flag alone means true, and a value needs `=`; otherwise there must be a value.
    """

    name = "boolean"
    value: Value = one_of("true", "false")

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
