"""`help`. (docs/spec: CLI 3)"""

import click

from pinnace.cli.flags import Command


@click.command("help", cls=Command, short_help="Explain a command or a topic.")
@click.argument("words", nargs=-1, metavar="[COMMAND...|TOPIC]")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Explain a command, as its flag --help does, or a topic: filters, locations, exit-codes, hooks."""
    if len(words) == 1:
        from difflib import get_close_matches

        from pinnace.cli.errors import InvalidInput
        from pinnace.cli.usage.topics import TOPICS

        if words[0] in TOPICS:
            click.echo(TOPICS[words[0]].replace("pinnace ", f"{ctx.find_root().info_name} "), nl=False)
            return
        root = ctx.find_root().command
        commands = root.list_commands(ctx) if isinstance(root, click.Group) else []
        if words[0] not in commands and not get_close_matches(words[0], commands):
            near = get_close_matches(words[0], TOPICS) or TOPICS
            raise InvalidInput(f'"{words[0]}" is neither a command nor a topic; topics: {", ".join(near)}')
    context = ctx.find_root()
    for word in words:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            raise click.NoSuchCommand(word, ctx=context)
        context = click.Context(found, parent=context, info_name=word, **found.context_settings)
    click.echo(context.command.get_help(context))
