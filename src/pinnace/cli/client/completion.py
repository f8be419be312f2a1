"""`completion bash|zsh|fish`. (docs/spec: CLI 8.5)"""

import click

from pinnace.cli.errors import ExitCode
from pinnace.cli.flags import Command, check_arguments


@click.command("completion", cls=Command, short_help="Print the completion script of a shell.")
@click.argument("shells", nargs=-1, metavar="bash|zsh|fish")
@click.pass_context
def command(ctx: click.Context, /, shells: tuple[str, ...]) -> int:
    """Print the script that completes commands, flags and their values in a shell.

    Names of backups, restores, schedules, locations, namespaces, resources and contexts are asked from where
    the line says: the server, or the location of --location. What does not answer within a quarter of a
    second is not offered.
    """
    from pinnace.cli.completion.scripts import SHELLS, script

    check_arguments(shells, exactly=1)
    if shells[0] not in SHELLS:
        click.echo("Invalid shell specified, specify bash, zsh, or fish")
        return ExitCode.ERROR
    click.echo(script(shells[0], ctx.find_root().info_name or "pinnace"), nl=False)
    return ExitCode.OK
