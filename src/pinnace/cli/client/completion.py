"""`completion bash|zsh|fish`. (docs/spec: CLI 8.5)

The scripts ask the program itself, with a variable in the environment; click then answers instead of running
a command, so that completion knows each command and flag without a list of its own.
"""

import click

from pinnace.cli.errors import ExitCode
from pinnace.cli.flags import Command, check_arguments

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command, short_help="Print the completion script of a shell.")
@click.argument("shells", nargs=-1, metavar="bash|zsh|fish")
@click.pass_context
def command(ctx: click.Context, /, shells: tuple[str, ...]) -> int:
    """Print the script that completes commands and flags in a shell.

    \b
    bash, in ~/.bashrc:                  source <(pinnace completion bash)
    zsh, in ~/.zshrc after compinit:     source <(pinnace completion zsh)
    fish, in ~/.config/fish/config.fish: pinnace completion fish | source
    """
    check_arguments(shells, exactly=1)
    if shells[0] not in SHELLS:
        click.echo("Invalid shell specified, specify bash, zsh, or fish")
        return ExitCode.ERROR
    click.echo(script(ctx.find_root(), shells[0]), nl=False)
    return ExitCode.OK


def script(root: click.Context, shell: str) -> str:
    """The completion script of a shell for the program under the name that it was called by."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    program = root.info_name or "pinnace"
    variable = f"_{program}_COMPLETE".replace("-", "_").replace(".", "_").upper()
    completer = completion(root.command, {}, program, variable)
    # Not `source()`: for bash it runs the bash of this machine, which need not be the one that is completed.
    return completer.source_template % completer.source_vars()
