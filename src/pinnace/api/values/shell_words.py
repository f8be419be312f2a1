"""Names in commands that messages suggest: a name may come out of a bucket, and hold anything. Pure."""

import shlex


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
