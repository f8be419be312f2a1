"""`uninstall`. (docs/spec: CLI 11)"""

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options, Section, switch


class UninstallOptions(Options):
    """`uninstall`."""

    wait: bool = switch(
        default=True,
        section=Section.OUTPUT,
        help="Wait until all is gone, as without this flag (=false: return at once).",
    )
    force: bool = switch(help="Do not ask.")


@command(
    "uninstall",
    UninstallOptions,
    short_help="Remove the server and its resources from a cluster.",
    examples=(
        ("Remove the server, after a question", "pinnace uninstall"),
        ("Without a question, and wait for the end", "pinnace uninstall --force --wait"),
        ("From another namespace", "pinnace uninstall -n backup"),
    ),
)
def uninstall(ctx: click.Context, options: UninstallOptions) -> None:
    """Remove the server's namespace, its access rights and the custom resource definitions.

    All Backup, Restore and Schedule objects of the cluster go with the definitions. What is stored in the
    backup locations stays, and can be used again by another server or with --location.
    """
    from pinnace.cli.install.uninstalling import uninstall

    uninstall(ctx, wait=options.wait, force=options.force)
