"""`snapshot-location set`. (docs/spec: CLI 7.5, BEY 7.4)"""

from collections.abc import Mapping, Sequence

from pinnace.cli.common.options import credential
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Options, arguments


class SnapshotLocationSetOptions(Options):
    """Change the credentials of a snapshot location."""

    names: Sequence[str] = arguments("NAME")
    credential: Mapping[str, str] = credential()


set_ = lazy_command(
    "set",
    SnapshotLocationSetOptions,
    "pinnace.cli.location.snapshot:change",
    noun="snapshot-location",
    short_help="Change a snapshot location.",
    examples=(
        ("Use other credentials", "pinnace snapshot-location set main --credential cloud-credentials=cloud"),
        ("In another namespace", "pinnace snapshot-location set main -n backup --credential snapshots=cloud"),
        (
            "In another cluster",
            "pinnace --kubecontext prod snapshot-location set main --credential cloud-credentials=cloud",
        ),
    ),
)
