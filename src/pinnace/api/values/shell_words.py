"""Names in commands that messages suggest: a name may come out of a bucket, and hold anything. Pure."""

import re
import shlex
from collections.abc import Callable
from typing import Final

_OWN_COMMAND: Final = r"`((?:backup|backup-location|install|nonadmin|restore|schedule) [^`]*)`"


def argument(name: str) -> str:
    """The name as a word of a shell's command, marked as no flag if it looks like one."""
    return f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)


def joined(program: str, words: list[str], flags: list[str]) -> str:
    """A shell's command; the flags come before the mark that ends all flags."""
    at = words.index("--") if "--" in words else len(words)
    return shlex.join([program, *words[:at], *flags, *words[at:]])


def as_name(name: str) -> list[str]:
    """The words for a name in a command that `joined` puts together."""
    return ["--", name] if name.startswith("-") else [name]


def with_commands(text: str, complete: Callable[[str], str]) -> str:
    """The text with its commands completed: rooms below the commands name them as `backup verify NAME`."""
    return re.sub(_OWN_COMMAND, lambda found: f"`{complete(found[1])}`", text)
