"""`debug`. (docs/spec: BEY 8.2)"""

import click

from pinnace.cli.flags import Command, boolean


@click.command("debug", cls=Command, short_help="Write a support bundle: logs, objects and versions.")
@click.option(
    "--output", default="", help="File to write; default bundle-YYYY-MM-DD-HH-MM-SS.tar.gz in this folder."
)
@click.option("--backup", default="", help="Backup to describe, with its log.")
@click.option("--restore", default="", help="Restore to describe, with its log.")
@boolean("--verbose", help="Say what is being collected.")
@click.pass_context
def command(ctx: click.Context, /, output: str, backup: str, restore: str, verbose: bool) -> None:
    """Write a support bundle about the server to one file.

    It holds the custom resources of the server's namespace, its workloads, their events and logs, and the
    versions. Secrets are not read, and what looks like one in the rest is taken out; look through the bundle
    all the same before you hand it on.
    """
    from pinnace.cli.debug import run as debug_run

    debug_run.debug(ctx, output, backup=backup, restore=restore, verbose=verbose)
