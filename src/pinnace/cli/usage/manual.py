"""Makes manual pages of all commands and topics from their help. Pure; `man` is the command that prints them.

A page uses the macros of man(7), which both groff and mandoc read.
"""

import re
from collections.abc import Iterator
from typing import Final

import click

from pinnace.cli.declaring.fields import Section
from pinnace.cli.declaring.sections import flags_of
from pinnace.cli.usage.topics import TOPICS

_MANUAL: Final = "Pinnace Manual"
_VERBS: Final = ("create", "get", "describe", "delete")
"""Groups with the same commands in another form; the pages of the nouns explain them."""
_UNLISTED: Final = ("restore-helper", "hold-volume", "repo-maintenance", "compare-files")
"""Commands that no help lists: only pods run them."""


def manual_pages(root: click.Group, version: str, date: str) -> dict[str, str]:
    """The pages by file name, as `pinnace-backup-create.1`; topics are in section 7.

    Args:
        version: the version of the program, for the foot of each page.
        date: the date, as `2026-11-22`, also for the foot.
    """
    found = {}
    for context in _contexts(root, click.Context(root, info_name="pinnace")):
        name = context.command_path.replace(" ", "-")
        found[f"{name}.1"] = "\n".join([_head(name, 1, version, date), *_of_command(name, context)]) + "\n"
    for topic, text in TOPICS.items():
        name = f"pinnace-{topic}"
        found[f"{name}.7"] = "\n".join([_head(name, 7, version, date), *_of_topic(name, text)]) + "\n"
    return found


def _contexts(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        at_root = context.parent is None
        unlisted = name in _UNLISTED or (at_root and name in _VERBS)
        if found is not None and not unlisted and (at_root or not found.hidden):
            yield from _contexts(found, click.Context(found, info_name=name, parent=context))


def _head(name: str, section: int, version: str, date: str) -> str:
    return f'.TH {_text(name.upper())} {section} "{date}" "pinnace v{version}" "{_MANUAL}"'


def _of_command(name: str, context: click.Context) -> Iterator[str]:
    command = context.command
    yield from (".SH NAME", f"{_text(name)} \\- {_text(command.get_short_help_str(200).rstrip('.'))}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (".SH SYNOPSIS", f".B {_text(context.command_path)}", _text(usage))
    yield from (".SH DESCRIPTION", *_paragraphs(command.help or command.short_help or ""))
    if isinstance(command, click.Group):
        yield from _of_group(command, context)
    yield from _options(command, context)
    if examples := getattr(command, "examples", ()):
        yield ".SH EXAMPLES"
        for number, (text, line) in enumerate(examples):
            yield from ([".PP"] if number else [])
            yield from (_text(f"{text}:"), ".PP", ".RS 4", ".nf", _text(line), ".fi", ".RE")
    others = [parent] if (parent := _name_of_parent(context)) else []
    yield from _see_also([(other, 1) for other in others] + [(f"pinnace-{topic}", 7) for topic in TOPICS])


def _of_group(group: click.Group, context: click.Context) -> Iterator[str]:
    yield ".SH COMMANDS"
    for inner in _contexts(group, context):
        if inner.parent is context:
            page = inner.command_path.replace(" ", "-")
            summary = inner.command.get_short_help_str(200)
            yield from (".TP", f".BR {_text(page)} (1)", _text(summary))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """The flags by section; those of all commands only in the page of the program."""
    yield ".SH OPTIONS"
    for title, lines in flags_of(command, context).items():
        if title is Section.CONNECTION and context.parent is not None:
            continue
        yield f".SS {title}"
        for flag, meaning in lines:
            yield from (".TP", f".B {_text(flag)}", _text(meaning))
    if context.parent is not None:
        yield from (".PP", "The flags of all commands are explained in", ".BR pinnace (1).")


def _of_topic(name: str, text: str) -> Iterator[str]:
    title, _, rest = text.partition("\n")
    yield from (".SH NAME", f"{_text(name)} \\- {_text(title.rstrip('.:'))}", ".SH DESCRIPTION")
    yield from (".nf", *map(_text, rest.strip("\n").splitlines()), ".fi")
    yield from _see_also([("pinnace", 1)])


def _see_also(pages: list[tuple[str, int]]) -> Iterator[str]:
    yield ".SH SEE ALSO"
    *most, last = pages
    yield from (f".BR {_text(name)} ({section})," for name, section in most)
    yield f".BR {_text(last[0])} ({last[1]})"


def _name_of_parent(context: click.Context) -> str:
    return context.parent.command_path.replace(" ", "-") if context.parent is not None else ""


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help text; those that click must not wrap keep their lines."""
    for number, part in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        if part.lstrip().startswith("\b"):
            lines = part.replace("\b", "", 1).strip("\n").splitlines()
            yield from (".nf", *(_text(line.strip()) for line in lines if line.strip()), ".fi")
        else:
            yield _text(" ".join(part.split()))


def _text(text: str) -> str:
    """Text for roff, without requests, escapes, or hyphens that cannot be pasted."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
