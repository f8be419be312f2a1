"""JSON that is nested deeper than our parsers go. Pure.

API servers take objects some thousand levels deep; the parsers here stop at about a thousand. One such object
must not hide the others of its page, nor stop a watch for good. So it is cut into its parts, and levels
beyond `KEPT_LEVELS` are left out where it has to be read, without parsing it.
"""

import re
from collections.abc import Iterator

KEPT_LEVELS = 200

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_ITEMS = b'"items"'
_OPENING = b"{["


def pruned(text: bytes, levels: int = KEPT_LEVELS) -> bytes:
    """JSON of the same meaning, but for values nested deeper than so many levels: those are `null`.

    What is not JSON is not made so.
    """
    parts, start, depth = [], 0, 0
    for token in _TOKEN.finditer(text):
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
    """Where each member of the array `items` of a JSON object begins and ends."""
    depth, begin, is_items, in_items = 0, 0, False, False
    for token in _TOKEN.finditer(text):
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
