"""`uninstall`. (docs/spec: CLI 11.4)"""

import click

from pinnace.cli.flags import Command, boolean


@click.command("uninstall", cls=Command, short_help="Remove the server and its resources from a cluster.")
@boolean("--wait", help="Wait until the namespace is gone.")
@boolean("--force", help="Do not ask.")
@click.pass_context
def command(ctx: click.Context, /, wait: bool, force: bool) -> None:
    """Remove the server's namespace, its access rights and the custom resource definitions.

    All Backup, Restore and Schedule objects of the cluster go with the definitions. What is stored in the
    backup locations stays, and can be used again by another server or with --location.
    """
    from pinnace.cli.install import uninstall as uninstall_run

    uninstall_run.uninstall(ctx, wait=wait, force=force)
