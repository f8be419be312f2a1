"""`restore-helper`: the program of the init container of restored pods. (docs/spec: SRV 17, PVL 11)

The entry point calls its function without this command where it can: that is a tenth of the work.
"""

import click

from pinnace.cli.flags import Command


@click.command("restore-helper", cls=Command, short_help="Wait for the volumes of a pod.", hidden=True)
@click.argument("words", nargs=-1, metavar="RESTORE_UID")
def command(words: tuple[str, ...]) -> int:
    """Wait until the volumes below /restores have their data; run by the init container of restored pods."""
    from pinnace.server import restore_helper

    restore_helper.end_on_signals()
    return restore_helper.main(words)
