"""Names in commands that messages suggest: a name may come out of a bucket, and hold anything. Pure."""

import re
from collections.abc import Callable
from typing import Final

_OWN_COMMAND: Final = r"`((?:backup|backup-location|install|nonadmin|restore|schedule) [^`]*)`"


def argument(name: str) -> str:
    """The name as a word of a shell's command, marked as no flag if it looks like one."""
    from shlex import quote  # loaded only for a message that names a command, as below

    return f"-- {quote(name)}" if name.startswith("-") else quote(name)


def joined(program: str, words: list[str], flags: list[str]) -> str:
    """A shell's command; the flags come before the mark that ends all flags."""
    from shlex import join

    at = words.index("--") if "--" in words else len(words)
    return join([program, *words[:at], *flags, *words[at:]])


def as_name(name: str) -> list[str]:
    """The words for a name in a command that `joined` puts together."""
    return ["--", name] if name.startswith("-") else [name]


def with_commands(text: str, complete: Callable[[str], str]) -> str:
    """The text with its commands completed: rooms below the commands name them as `backup verify NAME`."""
    return re.sub(_OWN_COMMAND, lambda found: f"`{complete(found[1])}`", text)
