"""Explains refusals of clouds by the state of the credentials: expired, deleted, wrong, used too late. Pure.

The messages of clouds have codes for these states, which mean little to most readers.
"""

import re
from collections.abc import Sequence
from typing import Final

from pinnace.storage.provider import CredentialProblem
from pinnace.storage.providers import PROVIDERS

_CLOCK: Final = CredentialProblem(
    r"RequestTimeTooSkewed|RequestExpired|not yet valid|token used too early",
    "its requests are too old or too new when they arrive",
    "set the clock of the machine that sends them",
)
_KNOWN: Final[Sequence[tuple[re.Pattern[str], CredentialProblem]]] = tuple(
    (re.compile(each.pattern, re.IGNORECASE), each)
    for each in (_CLOCK, *(each for known in PROVIDERS.values() for each in known.credential_problems))
)


def trouble_of(message: str) -> CredentialProblem | None:
    """The problem of credentials that a store's message reports; None if it reports no such problem."""
    return next((trouble for pattern, trouble in _KNOWN if pattern.search(message)), None)
