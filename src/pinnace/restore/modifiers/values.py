"""Converts the value of a JSON patch from the text in a rule to JSON. Pure. (docs/spec: BEY 5.3)

Velero puts the text into a JSON document and sends what it gets; for `TRUE`, `NaN` or a text with quotes that
is not JSON. Here every text becomes a valid value.
"""

import math
import re
from typing import Any

import orjson

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def value_of(text: str) -> Any:
    """The JSON value that a text stands for.

    `"5"` with quotes inside forces the string 5; `null`, `true` and `false` in any case, numbers, and what
    begins with a brace or bracket are JSON; everything else is a string.

    Raises:
        ValueError: it begins like a JSON object or array, but is not valid.
    """
    if text.lower() in ("null", "true", "false"):
        return orjson.loads(text.lower())
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return _quoted(text)
    if text[:1] in ("{", "["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"value {text[:100]!r} begins like JSON, but is not valid: {error}") from error
    if _NUMBER.fullmatch(text):
        return _number(text)
    return text


def _quoted(text: str) -> str:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text[1:-1]
    return found if isinstance(found, str) else text[1:-1]


def _number(text: str) -> Any:
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        whole = int(text) if len(text) <= 20 else None
        if whole is not None and -(1 << 63) <= whole < 1 << 64:
            return whole
    number = float(text)
    # Too large for readers of JSON: the text is kept.
    return number if math.isfinite(number) else text
