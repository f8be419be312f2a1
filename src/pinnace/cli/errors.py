"""The errors of commands, with their exit codes.

    CommandError            exit 1, `An error occurred: ...` (docs/spec: CLI 1.7)
    |- PlainError           the text stands alone, without that prefix
    |- LeaseLost            a server lost its lease: exit 5, the text stands alone
    |- NotConfirmed         a question was not answered: exit 2, nothing was done
    `- InvalidInput         what the user gave is wrong: exit 1, with --location 2

Exit codes of a command that works without a server (`--location`): see `ExitCode`.
"""

import enum
from typing import Final

OPENED_BY: Final = "; --identity-file FILE opens it"
"""Follows the reason why an encrypted file cannot be read, where no identity was given."""


class ExitCode(enum.IntEnum):
    """Exit codes. With a server only OK and ERROR occur, as in the compatible command line.

    Two exceptions: `create --wait --exit-code` (docs/adr/060), and a question that gets no answer. LEASE_LOST
    and STUCK are those of a server: another one may lead now; it did not stop in time and ended itself.
    """

    OK = 0
    ERROR = 1
    INVALID_INPUT = 2
    PARTIALLY_FAILED = 3
    FAILED = 4
    LEASE_LOST = 5
    STUCK = 6
    INTERRUPTED = 130


class CommandError(Exception):
    """A command cannot go on. The text is what the user reads; it says what to do where that helps."""

    exit_code: ExitCode = ExitCode.ERROR
    prefix = "An error occurred: "


class PlainError(CommandError):
    """Printed without the `An error occurred` prefix."""

    prefix = ""


class LeaseLost(PlainError):
    """A server ended as it must, because another one may lead now. It is to be started again."""

    exit_code = ExitCode.LEASE_LOST


class NotConfirmed(CommandError):
    """Nothing was done, because a question was not answered with yes or no."""

    exit_code = ExitCode.INVALID_INPUT


class InvalidInput(CommandError):
    """The request itself is wrong: nothing was done."""

    exit_code = ExitCode.INVALID_INPUT


def aggregate(errors: list[str]) -> str:
    """Several errors as one text: the only one as it is, more as `[e1, e2]`. (docs/spec: CLI 1.7)

    An error that several steps met, such as an expired token, is named once.
    """
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
