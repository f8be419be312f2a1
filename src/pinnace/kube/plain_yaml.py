"""Reads the YAML that tools write kubeconfig files in, in a hundredth of the time that PyYAML takes to load.

That is ASCII text of block mappings and sequences, whose scalars are plain or quoted without escapes. Of any
other text, such as one with comments, numbers or anchors, the reader is PyYAML.
"""

import string
from typing import Any, Final

_OF_KEYS: Final = frozenset(string.ascii_letters + string.digits + "_-")
_OF_SCALARS: Final = _OF_KEYS | frozenset("./:@+=[]")
_VALUES: Final[dict[str, object]] = {"true": True, "false": False, "null": None}
_NO_TEXTS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
"""In YAML 1.1 these words, in lower, upper or title case, are no texts."""
_DEEPEST: Final = 40


class NotPlain(Exception):
    """The text is more than plain YAML, or no YAML."""


def read_plain(content: bytes) -> Any:
    """What PyYAML's safe loader returns for the text. Raises NotPlain: only PyYAML can tell."""
    if not content.isascii():
        raise NotPlain
    lines = _Lines(content.decode("ascii"))
    value = lines.block(lines.indent) if lines.text else None
    if lines.text:
        raise NotPlain  # an indentation that no line before it has
    return value


class _Lines:
    """The lines that are left: `indent` and `text` are those of the first, empty at the end."""

    def __init__(self, content: str) -> None:
        self._lines = iter(content.split("\n"))
        self.next()

    def next(self) -> None:
        self.indent, self.text = -1, ""
        for line in self._lines:
            if text := line.lstrip(" "):
                self.indent, self.text = len(line) - len(text), text
                return

    def block(self, indent: int) -> Any:
        if indent > _DEEPEST:
            raise NotPlain
        return self._sequence(indent) if self.text.startswith("- ") else self._mapping(indent)

    def _sequence(self, indent: int) -> list[Any]:
        items: list[Any] = []
        while self.indent == indent and self.text.startswith("- "):
            self.indent, self.text = indent + 2, self.text[2:]
            if ": " in self.text or self.text.endswith(":"):
                items.append(self._mapping(self.indent))
            else:
                items.append(_scalar(self.text))
                self.next()
        return items

    def _mapping(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.indent == indent and not self.text.startswith("- "):
            key, colon, rest = self.text.partition(":")
            if not (colon and _is_text(key) and _OF_KEYS.issuperset(key)):
                raise NotPlain
            self.next()
            if rest:
                if rest[0] != " ":
                    raise NotPlain
                found[key] = _scalar(rest[1:])
            elif self.indent > indent:
                found[key] = self.block(self.indent)
            elif self.indent == indent and self.text.startswith("- "):
                found[key] = self._sequence(indent)
            else:
                found[key] = None
        return found


def _scalar(text: str) -> object:
    if text in _VALUES:
        return _VALUES[text]
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    quote = text[:1]
    if quote in ("'", '"') and text.endswith(quote):
        inner = text[1:-1]
        if len(text) >= 2 and quote not in inner and "\\" not in inner and inner.isprintable():
            return inner
    elif _is_text(text) and _OF_SCALARS.issuperset(text) and text[-1] != ":":
        return text
    raise NotPlain


def _is_text(text: str) -> bool:
    return (text[:1].isalpha() or text[:1] == "/" or text[:2] == "--") and text.lower() not in _NO_TEXTS
