"""`debug` and `bug`. (docs/spec: BEY 8.2, CLI 8.4)"""

import click

from pinnace.cli.flags import Command, boolean
from pinnace.cli.guard import complain


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


@click.command("bug", cls=Command, short_help="Print the text of a bug report to fill in.")
@click.pass_context
def bug(ctx: click.Context, /) -> None:
    """Print a bug report with the facts about this client, to be filled in and sent as an issue.

    Nothing is sent, and no browser is opened.
    """
    from pinnace.cli.connect import settings_of
    from pinnace.cli.debug import bug as bug_report

    facts, warnings = bug_report.facts(settings_of(ctx).features)
    for warning in warnings:
        complain(f"WARNING: {warning}")
    click.echo(bug_report.report(facts), nl=False)
