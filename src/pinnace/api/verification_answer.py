"""A server's result of a verification and its answer to a request for one, in annotations. (ADR 067)"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

_LONGEST_DETAIL: Final = 1000
_MOST_CHECKS: Final = 100
"""All annotations of an object have 256 KiB."""


class Soundness(StrEnum):
    """The result of a verification, as it is written into annotations."""

    SOUND = "sound"
    UNSOUND = "unsound"
    NOT_VERIFIED = "not-verified"
    """It is encrypted, and the server cannot open it."""
    NO_BACKUP = "no-backup"
    INVALID = "invalid"


class _Written(msgspec.Struct):
    request: str
    checks: list[tuple[str, str, str]] = []
    problem: str = ""


class VerificationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a server.

    Attributes:
        request: the text of the annotation that asked.
        checks: what was checked, the result, and details.
        problem: why it could not be verified; empty if it was.
    """

    request: str
    checks: Sequence[tuple[str, str, str]] = ()
    problem: str = ""

    def encode(self) -> str:
        """The value of the annotation; details that are too long are cut off."""
        checks = [(check, result, _cut(detail)) for check, result, detail in self.checks[:_MOST_CHECKS]]
        return msgspec.json.encode(_Written(self.request, checks, _cut(self.problem))).decode()

    @classmethod
    def decode(cls, value: str) -> "VerificationAnswer | None":
        """Read such a value; None for any other text."""
        try:
            found = msgspec.json.decode(value, type=_Written)
        except msgspec.DecodeError:
            return None
        return cls(request=found.request, checks=found.checks, problem=found.problem)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}..."
