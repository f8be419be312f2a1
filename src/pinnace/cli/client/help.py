"""`help`. (docs/spec: CLI 3)"""

from collections.abc import Sequence

import click

from pinnace.cli.declaring.commands import Group, command
from pinnace.cli.declaring.fields import Options, arguments
from pinnace.cli.declaring.values import COMMAND
from pinnace.cli.nouns import noun_of


class HelpOptions(Options):
    """`help`."""

    words: Sequence[str] = arguments("[COMMAND...|TOPIC]", COMMAND)


@command(
    "help",
    HelpOptions,
    short_help="Explain a command or a topic: filters, locations, exit-codes, hooks.",
    examples=(
        ("Explain a command", "pinnace help backup create"),
        ("Explain how to choose what is backed up", "pinnace help filters"),
        ("Explain exit codes", "pinnace help exit-codes"),
    ),
)
def help_(ctx: click.Context, options: HelpOptions) -> None:
    """Explain a command, as its flag --help does, or a topic: filters, locations, exit-codes, hooks."""
    click.echo(explanation(ctx, options.words), nl=False)


def explanation(ctx: click.Context, words: Sequence[str]) -> str:
    """The help of a command, or the text of a topic.

    Raises:
        click.NoSuchCommand, InvalidInput: there is none.
    """
    if len(words) == 1:
        from pinnace.api.values.near import near_names
        from pinnace.cli.errors import InvalidInput
        from pinnace.cli.usage.topics import TOPICS

        if words[0] in TOPICS:
            return TOPICS[words[0]].replace("pinnace ", f"{ctx.find_root().info_name} ")
        root = ctx.find_root().command
        commands = root.list_commands(ctx) if isinstance(root, click.Group) else []
        if words[0] not in commands and not noun_of(words[0]) and not near_names(words[0], commands):
            near = near_names(words[0], TOPICS) or TOPICS
            raise InvalidInput(f'"{words[0]}" is neither a command nor a topic; topics: {", ".join(near)}')
    context = ctx.find_root()
    for word in words:
        group = context.command
        word = group.canonical(word) if isinstance(group, Group) else word
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            raise click.NoSuchCommand(word, ctx=context)
        context = click.Context(found, parent=context, info_name=word, **found.context_settings)
    return f"{context.command.get_help(context)}\n"
