"""`bug`. (docs/spec: CLI 8.4)"""

import click

from pinnace.cli.flags import Command
from pinnace.cli.guard import complain


@click.command("bug", cls=Command, short_help="Print the text of a bug report to fill in.")
@click.pass_context
def command(ctx: click.Context, /) -> None:
    """Print a bug report with the facts about this client, to be filled in and sent as an issue.

    Nothing is sent, and no browser is opened.
    """
    from pinnace.cli.connect import settings_of
    from pinnace.cli.debug import bug as bug_report

    facts, warnings = bug_report.facts(settings_of(ctx).features)
    for warning in warnings:
        complain(f"WARNING: {warning}")
    click.echo(bug_report.report(facts), nl=False)
