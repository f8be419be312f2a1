"""The glob patterns of include and exclude lists. (docs/spec: API 13.1, BKP 4.1)

`*` and `**` stand for any run of characters, `?` for one, `[abc]`, `[a-c]` and `[!abc]` for one of a class,
`{a,b}` for either, `\\x` for x itself. Patterns have no separators, are case-sensitive, and match the
whole text.

Patterns and texts come from users and from backups, so they count as hostile. A translation to a regular
expression would backtrack: `*a*a*a*a*b` takes exponential or at least polynomial time. Here the set of
positions that a text can have been read up to is kept as the bits of an integer, so that matching takes one
cheap step for each character of the pattern, whatever the text is.
"""

from collections.abc import Sequence
from typing import Final

_SPECIAL: Final = frozenset("*?[{\\")
_MAX_NESTING: Final = 32  # braces within braces; honest patterns have one level
_SHOWN_CHARACTERS: Final = 60
_MAX_CHARACTERS: Final = 4096  # of a pattern; names have at most 253


class GlobError(ValueError):
    """A pattern that cannot be understood; the text names it and says why.

    Attributes:
        why: the reason alone.
    """

    def __init__(self, shown: str, why: str) -> None:
        super().__init__(f'invalid pattern "{shown}": {why}')
        self.why = why


def is_glob(text: str) -> bool:
    """Whether `text` has a character with a special meaning in patterns."""
    return not _SPECIAL.isdisjoint(text)


class Text:
    """A text being matched, by any number of patterns.

    Bit i of a set of positions means "the first i characters are read".
    """

    __slots__ = ("_bits_of", "all_positions", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.all_positions = (1 << (len(text) + 1)) - 1
        self._bits_of: dict[str, int] = {}
        for index, character in enumerate(text):
            self._bits_of[character] = self._bits_of.get(character, 0) | (1 << index)

    def before(self, characters: "_Class | str") -> int:
        """The positions right before a character that is, or is in, `characters`."""
        if isinstance(characters, str):
            return self._bits_of.get(characters, 0)
        bits = 0
        for character, positions in self._bits_of.items():
            if character in characters:
                bits |= positions
        return bits


class _Class:
    """The characters that `[...]` or `?` stands for."""

    __slots__ = ("_negated", "_ranges")

    def __init__(self, ranges: Sequence[tuple[str, str]], *, negated: bool) -> None:
        self._ranges = tuple(ranges)
        self._negated = negated

    def __contains__(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self._ranges) != self._negated


class _Star:
    """Any run of characters."""

    __slots__ = ()


class _Alternatives:
    """Any one of several sequences."""

    __slots__ = ("branches",)

    def __init__(self) -> None:
        self.branches: list[list[_Node]] = [[]]


_Node = str | _Class | _Star | _Alternatives
_STAR: Final = _Star()
_ANY_CHARACTER: Final = _Class((), negated=True)


class Glob:
    """A compiled pattern.

    Raises:
        GlobError: the pattern is not valid.
    """

    __slots__ = ("_beginning", "_nodes", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._nodes = _Parser(pattern).parse()
        self._beginning = _beginning(self._nodes)

    def matches(self, text: str | Text) -> bool:
        """Whether the pattern stands for the whole of `text`."""
        whole = text if isinstance(text, Text) else Text(text)
        if not whole.text.startswith(self._beginning):
            return False
        final_position = 1 << len(whole.text)
        return bool(_advance(self._nodes, 1, whole) & final_position)


def _beginning(nodes: Sequence[_Node]) -> str:
    """The characters before the first special one; they rule out most texts at once."""
    found = []
    for node in nodes:
        if not isinstance(node, str):
            break
        found.append(node)
    return "".join(found)


def _advance(nodes: Sequence[_Node], positions: int, text: Text) -> int:
    """The positions that `nodes` can lead to from any of `positions`."""
    for node in nodes:
        if not positions:
            return 0
        if isinstance(node, _Star):
            lowest = positions & -positions
            positions = text.all_positions & -lowest
        elif isinstance(node, _Alternatives):
            reached = 0
            for branch in node.branches:
                reached |= _advance(branch, positions, text)
            positions = reached
        else:
            positions = (positions & text.before(node)) << 1
    return positions


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0

    def parse(self) -> list[_Node]:
        if len(self._pattern) > _MAX_CHARACTERS:
            raise GlobError(
                f"{self._pattern[:_SHOWN_CHARACTERS]}...",
                f"it has {len(self._pattern)} characters, at most {_MAX_CHARACTERS} are allowed",
            )
        root: list[_Node] = []
        current = root
        open_braces: list[tuple[list[_Node], _Alternatives]] = []
        while (character := self._next()) is not None:
            if character == "{":
                if len(open_braces) == _MAX_NESTING:
                    raise self._error("braces nested too deeply")
                group = _Alternatives()
                current.append(group)
                open_braces.append((current, group))
                current = group.branches[0]
            elif character == "," and open_braces:
                current = []
                open_braces[-1][1].branches.append(current)
            elif character == "}" and open_braces:
                current = open_braces.pop()[0]
            else:
                self._append(current, character)
        if open_braces:
            raise self._error("'{' without '}'")
        return root

    def _append(self, nodes: list[_Node], character: str) -> None:
        if character == "*":
            # `**` is the same as `*`: there are no separators to stop at.
            if not (nodes and nodes[-1] is _STAR):
                nodes.append(_STAR)
        elif character == "?":
            nodes.append(_ANY_CHARACTER)
        elif character == "[":
            nodes.append(self._class())
        elif character == "\\":
            nodes.append(self._escaped())
        else:
            nodes.append(character)

    def _class(self) -> _Class:
        negated = self._pattern[self._position : self._position + 1] == "!"
        if negated:
            self._position += 1
        ranges: list[tuple[str, str]] = []
        while (character := self._next()) != "]":
            low = self._class_member(character)
            high = low
            rest = self._pattern[self._position : self._position + 2]
            # A dash at the end of the class stands for itself.
            if rest[:1] == "-" and rest[1:] != "]":
                self._position += 1
                high = self._class_member(self._next())
                if high < low:
                    raise self._error(f"range '{low}-{high}' runs backwards")
            ranges.append((low, high))
        if not ranges:
            raise self._error("'[]' without characters")
        return _Class(ranges, negated=negated)

    def _class_member(self, character: str | None) -> str:
        if character is None:
            raise self._error("'[' without ']'")
        return self._escaped() if character == "\\" else character

    def _escaped(self) -> str:
        character = self._next()
        if character is None:
            raise self._error("nothing follows the last '\\'")
        return character

    def _next(self) -> str | None:
        if self._position == len(self._pattern):
            return None
        character = self._pattern[self._position]
        self._position += 1
        return character

    def _error(self, why: str) -> GlobError:
        return GlobError(self._pattern, why)
