"""`help`. (docs/spec: CLI 3)"""

import click

from pinnace.cli.flags import Command


@click.command("help", cls=Command, short_help="Explain a command.")
@click.argument("words", nargs=-1, metavar="[COMMAND...]")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Explain a command, as its flag --help does."""
    context = ctx.find_root()
    for word in words:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            raise click.NoSuchCommand(word, ctx=context)
        context = click.Context(found, parent=context, info_name=word, **found.context_settings)
    click.echo(context.command.get_help(context))
