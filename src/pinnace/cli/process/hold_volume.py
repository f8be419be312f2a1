"""`hold-volume`: the program of pods that keep a volume mounted for a node agent. (docs/spec: BEY 6.7)"""

import signal

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options


@command("hold-volume", Options, short_help="", hidden=True)
def hold_volume(_ctx: click.Context, _options: Options) -> int:
    """Do nothing until ended; run by the pods that mount volumes whose data is moved."""
    ends = {signal.SIGTERM, signal.SIGINT}
    # Blocked and waited for, as the first process of a container has no default action for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    signal.sigwait(ends)
    return 0
