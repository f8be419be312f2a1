"""How messages name the program that calls, its commands and its flags."""

import logging
from collections.abc import Callable

import msgspec

from pinnace.api.values.shell_words import with_commands


def _by_name(text: str) -> str:
    return with_commands(text, "pinnace {}".format)


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The program that calls.

    Attributes:
        program: its name, in commands that messages suggest.
        pasteable: completes the commands in a text, which names them as `backup logs NAME`.
        warn: takes a warning about one of many objects; by default it is logged.
        longer: how the user gives a download more time; empty if there is no way.
        namespaces: what to say about namespaces where the server's has no objects; may be empty.
    """

    program: str = "pinnace"
    pasteable: Callable[[str], str] = _by_name
    warn: Callable[[str], object] = logging.getLogger(__name__).warning
    longer: str = ""
    namespaces: str = ""
