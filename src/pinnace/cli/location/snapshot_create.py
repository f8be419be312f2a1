"""`snapshot-location create`. (docs/spec: CLI 7.5)"""

from collections.abc import Mapping, Sequence

from pinnace.cli.common.options import credential
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, arguments, key_values, text
from pinnace.cli.declaring.values import NEW, PROVIDER
from pinnace.cli.output.printing import CreateOptions


class SnapshotLocationCreateOptions(CreateOptions):
    """Create a location for snapshots of volumes."""

    names: Sequence[str] = arguments("NAME", NEW)
    provider: str = text(
        section=Section.WHERE,
        value=PROVIDER,
        help="The plugin that takes the snapshots, such as aws. Required.",
    )
    credential: Mapping[str, str] = credential()
    config: Mapping[str, str] = key_values(
        section=Section.WHERE, help="Settings of the provider: region=...,k=v,..."
    )
    labels: Mapping[str, str] = key_values(help="Labels for the VolumeSnapshotLocation object: k=v,...")


create = lazy_command(
    "create",
    SnapshotLocationCreateOptions,
    "pinnace.cli.location.snapshot:create",
    noun="snapshot-location",
    short_help="Create a snapshot location.",
    examples=(
        (
            "A region of a cloud",
            "pinnace snapshot-location create main --provider aws --config region=eu-central-1",
        ),
        (
            "With credentials of its own",
            "pinnace snapshot-location create main --provider azure --credential snapshots=cloud",
        ),
        (
            "See what would be created",
            "pinnace snapshot-location create main --provider aws --dry-run=client -o yaml",
        ),
    ),
)
