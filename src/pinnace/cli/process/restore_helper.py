"""`restore-helper`: the program of the init container of restored pods. (docs/spec: SRV 17, PVL 11)

The entry point calls its function without this command where it can: that is a tenth of the work.
"""

from collections.abc import Sequence

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options, arguments


class RestoreHelperOptions(Options):
    """`restore-helper`."""

    words: Sequence[str] = arguments("RESTORE_UID", least=0, most=99)


@command("restore-helper", RestoreHelperOptions, short_help="", hidden=True)
def restore_helper(_ctx: click.Context, options: RestoreHelperOptions) -> int:
    """Wait until the volumes below /restores have their data; run by the init container of restored pods."""
    from pinnace.server.restore_helper import end_on_signals, main

    end_on_signals()
    return main([*options.words])
