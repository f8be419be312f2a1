"""Durations in Go's text form (`720h0m0s`), exact to the nanosecond. (docs/spec: API 1, CLI 1.8)

`datetime.timedelta` stops at microseconds and prints days; the API takes neither.
"""

import re
from datetime import timedelta
from functools import total_ordering
from typing import Final, NoReturn, Self

_NANOSECONDS_PER_UNIT: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
_MAX_NANOSECONDS: Final = 2**63 - 1
_MAX_TEXT_LENGTH: Final = 256  # far above any honest duration; keeps int() on digits cheap
_TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")


@total_ordering
class Duration:
    """An immutable span of time of at most about 292 years in either direction.

    Reads and prints Go's form: `Duration.parse("90s")`, `str(...) == "1m30s"`. Truth means "not zero", which
    is how the API tells "given" from "use the server's default" for non-pointer durations.
    """

    __slots__ = ("_nanoseconds",)
    _nanoseconds: int

    def __init__(self, nanoseconds: int = 0) -> None:
        if abs(nanoseconds) > _MAX_NANOSECONDS:
            raise ValueError(f"duration of {nanoseconds} ns does not fit 64 bits")
        object.__setattr__(self, "_nanoseconds", nanoseconds)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a signed sequence of decimal numbers with units, such as `1h30m` or `-1.5s`; no days.

        Raises:
            ValueError: with the text Go uses, since command-line users see it.
        """
        if len(text) > _MAX_TEXT_LENGTH:
            raise ValueError(f'time: invalid duration "{_shown(text[:32])}..."')
        return cls(_parse_nanoseconds(text))

    @classmethod
    def seconds(cls, count: float) -> Self:
        """A duration of `count` seconds, exact to the nanosecond."""
        return cls(round(count * 1_000_000_000))

    @classmethod
    def minutes(cls, count: int) -> Self:
        """A duration of `count` minutes."""
        return cls(count * _NANOSECONDS_PER_UNIT["m"])

    @classmethod
    def hours(cls, count: int) -> Self:
        """A duration of `count` hours."""
        return cls(count * _NANOSECONDS_PER_UNIT["h"])

    @property
    def nanoseconds(self) -> int:
        """The whole duration in nanoseconds."""
        return self._nanoseconds

    def total_seconds(self) -> float:
        """The whole duration in seconds."""
        return self._nanoseconds / 1_000_000_000

    def to_timedelta(self) -> timedelta:
        """The same span for arithmetic with datetimes; parts of a microsecond are cut off."""
        microseconds = abs(self._nanoseconds) // 1_000
        return timedelta(microseconds=microseconds if self._nanoseconds >= 0 else -microseconds)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Duration is immutable; cannot set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Duration is immutable; cannot delete {name}")

    def __reduce__(self) -> tuple[type[Self], tuple[int]]:
        return type(self), (self._nanoseconds,)

    def __bool__(self) -> bool:
        return self._nanoseconds != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Duration):
            return NotImplemented
        return self._nanoseconds == other._nanoseconds

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Duration):
            return NotImplemented
        return self._nanoseconds < other._nanoseconds

    def __hash__(self) -> int:
        return hash(self._nanoseconds)

    def __str__(self) -> str:
        return _format_nanoseconds(self._nanoseconds)

    def __repr__(self) -> str:
        return f"Duration.parse({str(self)!r})"


def _shown(text: str) -> str:
    """The text with escapes in place of what a terminal would obey: these errors are shown to people."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def _parse_nanoseconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f'time: invalid duration "{_shown(text)}"')
    total = 0
    position = 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        if term is None or not (term[1] or term[2]):
            raise ValueError(f'time: invalid duration "{_shown(text)}"')
        total += _term_nanoseconds(term[1], term[2] or "", term[3], text)
        position = term.end()
    if total > _MAX_NANOSECONDS:
        raise ValueError(f'time: invalid duration "{_shown(text)}"')
    return sign * total


def _term_nanoseconds(whole: str, fraction: str, unit: str, text: str) -> int:
    if not unit:
        raise ValueError(f'time: missing unit in duration "{_shown(text)}"')
    if unit not in _NANOSECONDS_PER_UNIT:
        raise ValueError(f'time: unknown unit "{_shown(unit)}" in duration "{_shown(text)}"')
    scale = _NANOSECONDS_PER_UNIT[unit]
    nanoseconds = int(whole or "0") * scale
    if fraction:
        nanoseconds += int(fraction) * scale // 10 ** len(fraction)
    return nanoseconds


def _format_nanoseconds(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    sign = "-" if nanoseconds < 0 else ""
    size = abs(nanoseconds)
    # Below one second the unit shrinks so that the leading number is never zero.
    for unit, limit in (("ns", 1_000), ("µs", 1_000_000), ("ms", 1_000_000_000)):
        if size < limit:
            return sign + _decimal(size, _NANOSECONDS_PER_UNIT[unit]) + unit
    minutes, rest = divmod(size, _NANOSECONDS_PER_UNIT["m"])
    text = _decimal(rest, _NANOSECONDS_PER_UNIT["s"]) + "s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(value: int, scale: int) -> str:
    """`value / scale` as an exact decimal without trailing zeros; `scale` is a power of ten."""
    whole, rest = divmod(value, scale)
    if not rest:
        return str(whole)
    digits = len(str(scale)) - 1
    return f"{whole}.{str(rest).zfill(digits).rstrip('0')}"
