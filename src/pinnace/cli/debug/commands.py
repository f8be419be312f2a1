"""`debug` and `bug`. (docs/spec: BEY 8.2, CLI 8.4)"""

import click

from pinnace.cli.declaring.commands import command, lazy_command
from pinnace.cli.declaring.fields import Options, switch, text
from pinnace.cli.declaring.values import BACKUP, FILE, CompletionSource, Value
from pinnace.cli.guard import complain


class DebugOptions(Options):
    """Write a support bundle about the server to one file.

    It holds the custom resources of the server's namespace, its workloads, their events and logs, and the
    versions. Secrets are not read, and what looks like one in the rest is taken out; look through the bundle
    all the same before you hand it on.
    """

    output: str = text(
        value=FILE, help="File to write; default bundle-YYYY-MM-DD-HH-MM-SS.tar.gz in this folder."
    )
    backup: str = text(value=BACKUP, help="Backup to describe, with its log.")
    restore: str = text(
        value=Value("RESTORE", CompletionSource.RESTORES), help="Restore to describe, with its log."
    )
    verbose: bool = switch(help="Say what is being collected.")


debug = lazy_command(
    "debug",
    DebugOptions,
    "pinnace.cli.debug.run:debug",
    short_help="Write a support bundle: logs, objects and versions.",
    examples=(
        ("Write a bundle about the server", "pinnace debug"),
        ("With the log of a backup that failed", "pinnace debug --backup shop"),
        ("To a file of this name", "pinnace debug --output /tmp/bundle.tar.gz --verbose"),
    ),
)


@command(
    "bug",
    Options,
    short_help="Print the text of a bug report to fill in.",
    examples=(
        ("Print the text", "pinnace bug"),
        ("Save it", "pinnace bug > report.md"),
        ("With the features that are enabled", "pinnace bug --features EnableCSI"),
    ),
)
def bug(ctx: click.Context, _options: Options) -> None:
    """Print a bug report with the facts about this client, to be filled in and sent as an issue.

    Nothing is sent, and no browser is opened.
    """
    from pinnace.cli.connect import settings_of
    from pinnace.cli.debug import bug as bug_report

    facts, warnings = bug_report.facts(settings_of(ctx).features)
    for warning in warnings:
        complain(f"WARNING: {warning}")
    click.echo(bug_report.report(facts), nl=False)
