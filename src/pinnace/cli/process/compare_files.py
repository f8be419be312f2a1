"""`compare-files`: the program that a dry run starts in the container of a node agent. (docs/adr/122)"""

import signal
import sys
from pathlib import Path
from typing import Final

import click

from pinnace.cli.connect import need_no_location, settings_of
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options, flag, text
from pinnace.cli.declaring.values import FOLDER
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.process.shared import run_process
from pinnace.store_access.user_agent import user_agent

_PRINTING_SECONDS: Final = 300


class CompareFilesFlags(Options):
    """The flags of `compare-files`."""

    request: str = flag(required=True, help="The volume and the snapshot, in JSON.")
    host_pods: str = text(
        default="/host_pods",
        value=FOLDER,
        help="Folder where the pods directory of the node's kubelet is mounted.",
    )


@command("compare-files", CompareFilesFlags, short_help="", hidden=True)
def compare_files(ctx: click.Context, flags: CompareFilesFlags) -> int:
    """Print how the files of a volume differ from a snapshot; run by `restore create --compare-files`."""
    import msgspec

    from pinnace.server.file_comparison import ComparisonFailed, run_comparison
    from pinnace.volumes.comparison_request import ComparisonRequest

    settings = settings_of(ctx)
    need_no_location(settings, "compare-files")
    try:
        wanted = msgspec.json.decode(flags.request, type=ComparisonRequest)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"--request: {error}") from error
    agent = user_agent("velero-restic-server")
    try:
        found = run_process(
            settings,
            lambda config: run_comparison(
                config, settings.namespace, Path(flags.host_pods), wanted, user_agent=agent
            ),
        )
    except ComparisonFailed as error:
        raise CommandError(str(error)) from error
    # Whoever reads this may be gone, and then nothing else ends the process.
    signal.alarm(_PRINTING_SECONDS)
    sys.stdout.buffer.write(msgspec.json.encode(found))
    sys.stdout.buffer.flush()
    signal.alarm(0)
    return 0
