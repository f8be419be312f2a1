"""Reads the answers of key management services. Pure."""

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from pinnace.kms.errors import KMSRefused

_MOST_CHARACTERS: Final = 300


def bytes_in(answer: Mapping[str, object], name: str, what: str, *, url_safe: bool = False) -> bytes:
    """The bytes that a member of an answer has in base64. Raises KMSRefused."""
    text = text_in(answer, name, what)
    try:
        if url_safe:
            return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise KMSRefused(f"{what}: {name} of the answer is not base64") from error


def text_in(answer: Mapping[str, object], name: str, what: str) -> str:
    """The text of a member of an answer. Raises KMSRefused if there is none."""
    text = answer.get(name)
    if not isinstance(text, str) or not text:
        raise KMSRefused(f"{what}: the answer has no {name}")
    return text


def line(value: object) -> str:
    """A text of an answer for a message, in one line; empty for anything else."""
    return " ".join(value.split())[:_MOST_CHARACTERS] if isinstance(value, str) else ""
