"""`completion bash|zsh|fish`. (docs/spec: CLI 8.5)"""

from collections.abc import Sequence

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options, arguments
from pinnace.cli.declaring.values import Value
from pinnace.cli.errors import ExitCode


class CompletionOptions(Options):
    """`completion`."""

    shells: Sequence[str] = arguments("bash|zsh|fish", Value("SHELL", words=("bash", "zsh", "fish")))


@command(
    "completion",
    CompletionOptions,
    short_help="Print the completion script of a shell.",
    examples=(
        ("bash, in ~/.bashrc: source <(pinnace completion bash)", "pinnace completion bash"),
        ("zsh, in ~/.zshrc after compinit: source <(pinnace completion zsh)", "pinnace completion zsh"),
        ("fish, in ~/.config/fish/config.fish: pinnace completion fish | source", "pinnace completion fish"),
    ),
)
def completion(ctx: click.Context, options: CompletionOptions) -> int:
    """Print the script that completes commands, flags and their values in a shell.

    Names of backups, restores, schedules, locations, namespaces, resources and contexts are asked from where
    the line says: the server, or the location of --location. What does not answer within a quarter of a
    second is not offered.
    """
    from pinnace.cli.completion.scripts import SHELLS, script

    (shell,) = options.shells
    if shell not in SHELLS:
        click.echo("Invalid shell specified, specify bash, zsh, or fish")
        return ExitCode.ERROR
    click.echo(script(shell, ctx.find_root().info_name or "pinnace"), nl=False)
    return ExitCode.OK
