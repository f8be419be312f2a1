"""The output of a command, as tests compare it."""

from tests.e2e.without_server.command import Outcome


def only_line(outcome: Outcome) -> str:
    """The one line that a command printed, without an error."""
    assert (outcome.code, outcome.told) == (0, ""), outcome
    assert outcome.out.count("\n") == 1, outcome
    return outcome.out.strip()


def error(outcome: Outcome) -> str:
    """The one line that says what is wrong."""
    assert (outcome.code, outcome.out) == (1, ""), outcome
    assert outcome.told.startswith("An error occurred: "), outcome
    assert outcome.told.count("\n") == 1, outcome
    return outcome.told.removeprefix("An error occurred: ").strip()
