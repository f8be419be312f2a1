"""All commands of the command line, as they are declared."""

from collections.abc import Iterator

import click

from pinnace.cli.declaring.commands import Command, Examples
from pinnace.cli.nouns import noun_first
from pinnace.cli.program import cli


def _contexts(group: click.Group, context: click.Context) -> Iterator[click.Context]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _contexts(command, inner)
        else:
            yield inner


ALL = {
    " ".join(context.command_path.split()[1:]): context
    for context in _contexts(cli, click.Context(cli, info_name="pinnace"))
}
"""A context for each command that is no group, whether a help lists it or not, by its words."""


def command_of(context: click.Context) -> Command:
    """The command of a context."""
    assert isinstance(context.command, Command)
    return context.command


EXAMPLES: dict[str, Examples] = {
    noun_first(path.split()): examples
    for path, context in ALL.items()
    if (examples := command_of(context).examples)
}
"""The examples of each command that has some, by its words, noun first."""
