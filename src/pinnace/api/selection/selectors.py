"""Label selectors: reading their text form, matching labels, and the canonical text. (docs/spec: API 14)

The text form is Kubernetes': `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`, `k>1`, `k<1`,
joined by commas. All conditions must hold.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, Self

import msgspec
from msgspec.structs import force_setattr

from pinnace.api.meta import LabelSelector, LabelSelectorRequirement

_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_PREFIX: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_INTEGER: Final = r"[+-]?[0-9]{1,19}"
_BLANKS: Final = " \t\n\r"
"""The white space that Kubernetes skips; any other makes a word invalid."""
_TOKEN: Final = rf"[{_BLANKS}]*(==|!=|[=!(),<>]|[^{_BLANKS}=!(),<>]+)"
_MAX_NAME_LENGTH: Final = 63
_MAX_PREFIX_LENGTH: Final = 253


class Operator(StrEnum):
    """How a requirement compares."""

    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


_API_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_SYMBOLS: Final = {
    "=": Operator.EQUALS,
    "==": Operator.EQUALS,
    "!=": Operator.NOT_EQUALS,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_SINGLE_VALUE: Final = frozenset(
    {Operator.EQUALS, Operator.NOT_EQUALS, Operator.GREATER_THAN, Operator.LESS_THAN}
)


class Requirement(msgspec.Struct, frozen=True, order=True):
    """One condition; `values` is sorted and without duplicates. ValueError if Kubernetes would refuse it."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "values", tuple(sorted(set(self.values))))
        _check_key(self.key)
        for value in self.values:
            _check_value(value)
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            if self.values:
                raise ValueError(f"values must be empty for {self.operator.name} of {self.key!r}")
        elif not self.values:
            raise ValueError(f"for 'in', 'notin' operators, values of {self.key!r} can't be empty")
        if self.operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
            _integer(self.values[0], self.key)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` fulfil the condition. An absent label fulfils the negative ones only."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.EQUALS | Operator.IN:
                return value is not None and self._has(value)
            case Operator.NOT_EQUALS | Operator.NOT_IN:
                return value is None or not self._has(value)
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                if value is None or not re.fullmatch(_INTEGER, value):
                    return False
                limit = int(self.values[0])
                return int(value) > limit if self.operator is Operator.GREATER_THAN else int(value) < limit

    def _has(self, value: str) -> bool:
        """Whether a value is among the sorted ones; a spec may name thousands."""
        index = bisect_left(self.values, value)
        return index < len(self.values) and self.values[index] == value

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case Operator.GREATER_THAN:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS_THAN:
                return f"{self.key}<{self.values[0]}"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


class Selector:
    """Conditions on labels. All must hold; without conditions it matches everything. Immutable."""

    __slots__ = ("requirements",)

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self.requirements: tuple[Requirement, ...] = tuple(sorted(requirements))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form; blank text is the empty selector.

        Raises:
            ValueError: the text is not a selector.
        """
        return cls(_Parser(text).requirements())

    @classmethod
    def from_label_selector(cls, selector: LabelSelector | None) -> Self:
        """Take over a selector of a spec; None and an empty one match everything. (docs/spec: API 14)

        Raises:
            ValueError: unknown operator, or a key or value that Kubernetes would refuse.
        """
        if selector is None:
            return cls()
        requirements = [
            Requirement(key, Operator.EQUALS, (value,)) for key, value in selector.match_labels.items()
        ]
        for expression in selector.match_expressions:
            operator = _API_OPERATORS.get(expression.operator)
            if operator is None:
                raise ValueError(f'"{expression.operator}" is not a valid label selector operator')
            requirements.append(Requirement(expression.key, operator, tuple(expression.values)))
        return cls(requirements)

    def to_label_selector(self) -> LabelSelector:
        """The form that specs have: `k=v` as matchLabels, the rest as matchExpressions.

        Raises:
            ValueError: a condition cannot be expressed there; the text is that of the command line (CLI 1.8).
        """
        selector = LabelSelector()
        for requirement in self.requirements:
            match requirement.operator:
                case Operator.NOT_EQUALS:
                    raise ValueError('"!=" is not a valid label selector operator')
                case Operator.GREATER_THAN | Operator.LESS_THAN:
                    raise ValueError(f'"{requirement.operator}" isn\'t supported in label selectors')
                case Operator.EQUALS if requirement.key not in selector.match_labels:
                    selector.match_labels[requirement.key] = requirement.values[0]
                case _:
                    # Also a second `k=v` of one key, which matchLabels cannot hold.
                    selector.match_expressions.append(_expression(requirement))
        return selector

    @property
    def empty(self) -> bool:
        """Whether there are no conditions."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels (None: without any) is selected."""
        present = labels or {}
        return all(requirement.matches(present) for requirement in self.requirements)

    def __str__(self) -> str:
        """The canonical text, sorted by key; empty for the empty selector."""
        return ",".join(str(requirement) for requirement in self.requirements)

    def __repr__(self) -> str:
        return f"Selector.parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selector):
            return NotImplemented
        return self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)


def parse_label_selector(text: str) -> LabelSelector:
    """Read the value of a selector flag. (docs/spec: CLI 1.8)

    Raises:
        ValueError: with the text that the command line shows.
    """
    try:
        selector = Selector.parse(text)
    except ValueError as error:
        raise ValueError(f'couldn\'t parse the selector string "{text}": {error}') from error
    return selector.to_label_selector()


def _expression(requirement: Requirement) -> LabelSelectorRequirement:
    names = {operator: name for name, operator in _API_OPERATORS.items()}
    name = names.get(requirement.operator, "In")
    return LabelSelectorRequirement(key=requirement.key, operator=name, values=list(requirement.values))


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _MAX_PREFIX_LENGTH or not re.fullmatch(_PREFIX, prefix)):
        raise ValueError(f'invalid label key "{key}": the part before the slash must be a DNS name')
    if len(name) > _MAX_NAME_LENGTH or not re.fullmatch(_NAME, name):
        raise ValueError(
            f'invalid label key "{key}": the name must be 1 to 63 letters, digits, "-", "_" or ".", '
            "with a letter or digit at both ends"
        )


def _check_value(value: str) -> None:
    if value and (len(value) > _MAX_NAME_LENGTH or not re.fullmatch(_NAME, value)):
        raise ValueError(
            f'invalid label value "{value}": must be at most 63 letters, digits, "-", "_" or ".", '
            "with a letter or digit at both ends"
        )


def _integer(value: str, key: str) -> int:
    if not re.fullmatch(_INTEGER, value):
        raise ValueError(f"for 'gt', 'lt' operators, the value of {key!r} must be an integer")
    return int(value)


class _Parser:
    """Recursive descent over the tokens; the words `in` and `notin` are keys and values like any other."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._index = 0

    def requirements(self) -> list[Requirement]:
        if not self._tokens:
            return []
        found = [self._requirement()]
        while (separator := self._take()) is not None:
            if separator != ",":
                raise ValueError(f"found '{separator}', expected: ',' or 'end of string'")
            found.append(self._requirement())
        return found

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._word(), Operator.DOES_NOT_EXIST)
        key = self._word()
        if self._peek() in (None, ","):
            return Requirement(key, Operator.EXISTS)
        token = self._take() or ""
        operator = _SYMBOLS.get(token)
        if operator is None:
            raise ValueError(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")
        values = (self._value(),) if operator in _SINGLE_VALUE else self._set()
        return Requirement(key, operator, values)

    def _set(self) -> tuple[str, ...]:
        self._expect("(")
        values = [self._value()]
        while self._peek() == ",":
            self._take()
            values.append(self._value())
        self._expect(")")
        return tuple(values)

    def _value(self) -> str:
        """A word, or nothing at all: `k=` and `k in (a,)` compare with the empty value."""
        return "" if self._peek() in (None, ",", ")") else self._word()

    def _word(self) -> str:
        token = self._take()
        if token is None or token[0] in "=!(),<>":
            raise ValueError(f"found '{token or ''}', expected: identifier")
        return token

    def _expect(self, wanted: str) -> None:
        token = self._take()
        if token != wanted:
            raise ValueError(f"found '{token or ''}', expected: '{wanted}'")

    def _peek(self) -> str | None:
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def _take(self) -> str | None:
        token = self._peek()
        self._index += 1
        return token


def _tokens(text: str) -> Iterator[str]:
    text = text.rstrip(_BLANKS)
    position, token = 0, re.compile(_TOKEN)
    while position < len(text):
        match = token.match(text, position)
        if match is None:
            raise ValueError(f"found '{text[position]}', expected: identifier")
        yield match[1]
        position = match.end()
