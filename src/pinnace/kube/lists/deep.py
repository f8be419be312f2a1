"""Handles JSON that is nested too deeply for our parsers. Pure.

API servers accept objects some thousand levels deep; our parsers stop at about a thousand. One such object
must not hide the others of its page, nor stop a watch for good. So lists are split into their items without
parsing them, and levels beyond `KEPT_LEVELS` are removed from an object before it is read.
"""

import re
from collections.abc import Iterator

KEPT_LEVELS = 200

_TOKEN = rb'"(?:[^"\\]|\\.)*"|[{}\[\]]'
_ITEMS = b'"items"'
_OPENING = b"{["


def pruned(text: bytes, levels: int = KEPT_LEVELS) -> bytes:
    """Return the same JSON with `null` in place of all values that are nested deeper than `levels`.

    Invalid JSON stays invalid.
    """
    parts, start, depth = [], 0, 0
    for token in re.finditer(_TOKEN, text):
        character = token[0][:1]
        if character == b'"':
            continue
        if character in _OPENING:
            depth += 1
            if depth == levels + 1:
                parts += [text[start : token.start()], b"null"]
        else:
            depth -= 1
            if depth == levels:
                start = token.end()
    parts.append(text[start:])
    return b"".join(parts)


def items_of(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each member of the array `items` of a JSON object."""
    depth, begin, is_items, in_items = 0, 0, False, False
    for token in re.finditer(_TOKEN, text):
        character = token[0][:1]
        if character == b'"':
            if depth == 1:
                is_items = token[0] == _ITEMS
            continue
        if character in _OPENING:
            depth += 1
            if depth == 2:
                in_items = is_items and character == b"["
            elif depth == 3:
                begin = token.start()
        else:
            if depth == 3 and in_items:
                yield begin, token.end()
            depth -= 1
