"""Rules for the words of a command, checked before anything else is done with them.

* A word that is no UTF-8 can only be the name of a file: no object, label or text of a cluster may hold it.
* A wrong request ends with the same exit code in whatever order its flags come, so the location is looked up
  in the words themselves.
* What a message repeats of a word stays short.
"""

import re
from collections.abc import Sequence
from typing import Final

import click

_LOCATION: Final = "--location"
_LONGEST: Final = 300
"""Characters of a word that a message repeats; names have at most 253."""
_LONG_RUN: Final = rf"\S{{{_LONGEST + 1},}}"
_SURROGATES: Final = "[\ud800-\udfff]"
"""Python has one of these characters in the place of each byte that is no UTF-8."""


class BadFlagValue(click.UsageError):
    """A flag got a value that it cannot take; worded as the compatible command line words it."""

    def __init__(self, value: str, flag: str, problem: str) -> None:
        super().__init__(f'invalid argument "{shortened(value)}" for "{flag}" flag: {problem}')


def flag_label(param: click.Parameter | None) -> str:
    """`--ttl`, or `-l, --selector` for a flag with a short form."""
    return ", ".join(sorted(param.opts, key=len)) if param is not None else ""


def is_text(word: str) -> bool:
    """Whether a word is UTF-8, as everything but the name of a file has to be."""
    return word.isascii() or re.search(_SURROGATES, word) is None


def as_written(word: str) -> str:
    """The word with its bytes that are no UTF-8 as `\\xff`."""
    return re.sub(_SURROGATES, _as_byte, word)


def _as_byte(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def shortened(text: str) -> str:
    """The text without the middle, if it is long."""
    left_out = len(text) - _LONGEST
    if left_out <= 0:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}...({left_out} characters)...{text[-half:]}"


def with_short_words(message: str) -> str:
    """The message with its long words shortened."""
    return re.sub(_LONG_RUN, lambda found: shortened(found[0]), message)


def location_in(words: Sequence[str]) -> str | None:
    """The value of the last `--location` among the words of a command line; None without one."""
    found = None
    for index, word in enumerate(words):
        if word == "--":
            break
        if word == _LOCATION and index + 1 < len(words):
            found = words[index + 1]
        elif word.startswith(f"{_LOCATION}="):
            found = word.partition("=")[2]
    return found
