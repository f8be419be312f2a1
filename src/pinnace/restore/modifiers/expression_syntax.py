"""The syntax of regular expressions for names: what an expression consists of. Pure. (RE2, as in Velero)"""

from collections.abc import Iterable, Sequence
from string import ascii_letters, digits, hexdigits
from typing import Final

from pinnace.api.values.digits import is_digits

_MAX_NESTING: Final = 50  # groups within groups
_MAX_REPEATS: Final = 1000  # as in RE2

_LAST: Final = "\U0010ffff"
Ranges = tuple[tuple[str, str], ...]
_DIGIT: Final[Ranges] = (("0", "9"),)
_SPACE: Final[Ranges] = (("\t", "\n"), ("\f", "\r"), (" ", " "))
_WORD: Final[Ranges] = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_CLASSES: Final = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_NAMED_CLASSES: Final[dict[str, Ranges]] = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")),
    "alpha": (("A", "Z"), ("a", "z")),
    "digit": _DIGIT,
    "lower": (("a", "z"),),
    "space": (("\t", "\r"), (" ", " ")),
    "upper": (("A", "Z"),),
    "word": _WORD,
    "xdigit": (("0", "9"), ("A", "F"), ("a", "f")),
}
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HEXADECIMAL: Final = frozenset(hexdigits)
WORD_CHARACTERS: Final = frozenset(f"{ascii_letters}{digits}_")
_ASSERTIONS: Final = {"A": "text begins", "z": "text ends", "b": "word boundary", "B": "no word boundary"}


class ExpressionError(ValueError):
    """An expression that cannot be used; the text says why."""


class CharacterSet:
    """One character of some ranges."""

    __slots__ = ("_folds", "_negated", "_ranges")

    def __init__(self, ranges: Iterable[tuple[str, str]], *, negated: bool, folds: bool) -> None:
        self._ranges = tuple(ranges)
        self._negated = negated
        self._folds = folds

    def __contains__(self, character: str) -> bool:
        forms = {character, character.lower(), character.upper()} if self._folds else {character}
        found = any(low <= form <= high for form in forms for low, high in self._ranges if len(form) == 1)
        return found != self._negated


class TextAssertion:
    """A place in the text, such as its end."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def holds(self, before: str, after: str) -> bool:
        """Whether it holds between two characters; none is before the text, and none behind it."""
        match self.kind:
            case "text begins":
                return not before
            case "text ends":
                return not after
            case "line begins":
                return before in ("", "\n")
            case "line ends":
                return after in ("", "\n")
        return ((before in WORD_CHARACTERS) != (after in WORD_CHARACTERS)) == (self.kind == "word boundary")


class Concatenation:
    __slots__ = ("parts",)

    def __init__(self, parts: "Sequence[SyntaxNode]") -> None:
        self.parts = parts


class Alternation:
    __slots__ = ("branches",)

    def __init__(self, branches: "Sequence[SyntaxNode]") -> None:
        self.branches = branches


class Repetition:
    """A part that comes from `least` to `most` times; None for any number."""

    __slots__ = ("least", "most", "part")

    def __init__(self, part: "SyntaxNode", least: int, most: int | None) -> None:
        self.part = part
        self.least = least
        self.most = most


SyntaxNode = CharacterSet | TextAssertion | Concatenation | Alternation | Repetition


def parse_expression(pattern: str) -> SyntaxNode:
    """The parts of an expression. Raises ExpressionError."""
    return _Parser(pattern).parse()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._nesting = 0
        self._flags: frozenset[str] = frozenset()

    def parse(self) -> SyntaxNode:
        node = self._choice()
        if self._position < len(self._pattern):
            raise ExpressionError("')' without '('")
        return node

    def _choice(self) -> SyntaxNode:
        branches = [self._sequence()]
        while self._takes("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Alternation(branches)

    def _sequence(self) -> SyntaxNode:
        parts: list[SyntaxNode] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._part()))
        return Concatenation(parts)

    def _repeated(self, part: SyntaxNode) -> SyntaxNode:
        bounds = self._bounds()
        if bounds is None:
            return part
        self._takes("?")  # the shortest match is a match, too
        if self._bounds() is not None:
            raise ExpressionError("a repetition of a repetition needs a group")
        return Repetition(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        """The numbers of a repetition, if one begins here."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(sign):
                return bounds
        end = self._pattern.find("}", self._position)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._pattern[self._position + 1 : end].partition(",")
        if not is_digits(low) or not (is_digits(high) or not high):
            return None  # a brace that stands for itself
        self._position = end + 1
        if len(low) > 4 or len(high) > 4:
            raise ExpressionError(f"more than {_MAX_REPEATS} repetitions")
        least = int(low)
        most = least if not comma else int(high) if high else None
        if max(least, most or 0) > _MAX_REPEATS:
            raise ExpressionError(f"more than {_MAX_REPEATS} repetitions")
        if most is not None and most < least:
            raise ExpressionError(f"a repetition from {least} to {most} times")
        return least, most

    def _part(self) -> SyntaxNode:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._set()
            case ".":
                return self._one_of((("\n", "\n"),) if "s" not in self._flags else (), negated=True)
            case "^":
                return TextAssertion("line begins" if "m" in self._flags else "text begins")
            case "$":
                return TextAssertion("line ends" if "m" in self._flags else "text ends")
            case "*" | "+" | "?":
                raise ExpressionError(f"nothing before '{character}' to repeat")
            case "\\":
                return self._escape()
        return self._one_of(((character, character),))

    def _one_of(self, ranges: Iterable[tuple[str, str]], *, negated: bool = False) -> CharacterSet:
        return CharacterSet(ranges, negated=negated, folds="i" in self._flags)

    def _group(self) -> SyntaxNode:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise ExpressionError(f"more than {_MAX_NESTING} groups within each other")
        outer = self._flags
        if self._takes("?") and self._options():
            self._nesting -= 1
            return Concatenation(())  # `(?i)`: the flags are for what follows
        node = self._choice()
        if not self._takes(")"):
            raise ExpressionError("'(' without ')'")
        self._nesting -= 1
        self._flags = outer
        return node

    def _options(self) -> bool:
        """Read what stands behind `(?`. Returns whether that was all of the group."""
        name_begin = next(
            (each for each in ("P<", "<") if self._pattern.startswith(each, self._position)), ""
        )
        if name_begin:
            end = self._pattern.find(">", self._position)
            name = self._pattern[self._position + len(name_begin) : end]
            if end < 0 or not name.isidentifier():
                raise ExpressionError("look-around is not supported, or the name of a group is not valid")
            self._position = end + 1
            return False
        flags, is_off = set(self._flags), False
        while (sign := self._next()) not in (":", ")"):
            if sign == "-" and not is_off:
                is_off = True
            elif sign in ("i", "m", "s", "U"):
                flags = flags - {sign} if is_off else flags | {sign}
            else:
                raise ExpressionError(f"'(?{sign}' is not supported")
        self._flags = frozenset(flags)
        return sign == ")"

    def _escape(self) -> SyntaxNode:
        character = self._next("nothing follows the last '\\'")
        if character in _ASSERTIONS:
            return TextAssertion(_ASSERTIONS[character])
        if character == "Q":
            end = self._pattern.find("\\E", self._position)
            quoted = self._pattern[self._position : end if end >= 0 else None]
            self._position = len(self._pattern) if end < 0 else end + 2
            return Concatenation([self._one_of(((each, each),)) for each in quoted])
        return self._one_of(self._escaped(character))

    def _escaped(self, character: str) -> Ranges:
        """The ranges that an escape stands for, alone or in a set."""
        if (ranges := _CLASSES.get(character.lower())) is not None:
            return ranges if character.islower() else _complement(ranges)
        if character == "x":
            return self._by_code()
        if character in _CONTROLS:
            character = _CONTROLS[character]
        elif character.isascii() and character.isalnum():
            raise ExpressionError(f"'\\{character}' is not supported")
        return ((character, character),)

    def _by_code(self) -> Ranges:
        if self._takes("{"):
            end = self._pattern.find("}", self._position)
            written = self._pattern[self._position : end] if end >= 0 else ""
            self._position = end + 1
        else:
            written = self._pattern[self._position : self._position + 2]
            self._position += 2
        code = int(written, 16) if written and set(written) <= _HEXADECIMAL and len(written) <= 8 else -1
        if not 0 <= code <= ord(_LAST):
            raise ExpressionError(f"'\\x{written}' is no character")
        return ((chr(code), chr(code)),)

    def _set(self) -> CharacterSet:
        negated = self._takes("^")
        ranges: list[tuple[str, str]] = []
        while True:
            character = self._next("'[' without ']'")
            if character == "]" and ranges:
                return self._one_of(ranges, negated=negated)
            if character == "[" and self._peek() == ":":
                ranges += self._named_class()
                continue
            found = self._member(character)
            rest = self._pattern[self._position : self._position + 2]
            is_one = len(found) == 1 and found[0][0] == found[0][1]
            if is_one and rest[:1] == "-" and rest[1:] != "]":
                self._position += 1
                high = self._member(self._next("'[' without ']'"))
                if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < found[0][0]:
                    raise ExpressionError("a range in '[...]' does not end behind its beginning")
                found = ((found[0][0], high[0][0]),)
            ranges += found

    def _member(self, character: str) -> Ranges:
        if character == "\\":
            return self._escaped(self._next("nothing follows the last '\\'"))
        return ((character, character),)

    def _named_class(self) -> Ranges:
        end = self._pattern.find(":]", self._position)
        name = self._pattern[self._position + 1 : end] if end >= 0 else ""
        self._position = end + 2
        ranges = _NAMED_CLASSES.get(name.removeprefix("^"))
        if ranges is None:
            raise ExpressionError(f"the class of characters [:{name}:] is not supported")
        return _complement(ranges) if name.startswith("^") else ranges

    def _peek(self) -> str:
        return self._pattern[self._position : self._position + 1]

    def _takes(self, sign: str) -> bool:
        if self._peek() != sign:
            return False
        self._position += 1
        return True

    def _next(self, missing: str = "it ends within a group") -> str:
        character = self._peek()
        if not character:
            raise ExpressionError(missing)
        self._position += 1
        return character


def _complement(ranges: Ranges) -> Ranges:
    """The characters that sorted ranges leave out."""
    found, begin = [], 0
    for low, high in ranges:
        if ord(low) > begin:
            found.append((chr(begin), chr(ord(low) - 1)))
        begin = ord(high) + 1
    if begin <= ord(_LAST):
        found.append((chr(begin), _LAST))
    return tuple(found)
