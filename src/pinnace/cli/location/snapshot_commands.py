"""`snapshot-location create|get|describe|set`. (docs/spec: CLI 7.5, BEY 7.4)"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pinnace.cli.common.commands import describe_command, examples_of_get, get_command, group_of
from pinnace.cli.common.options import credential
from pinnace.cli.declaring.commands import command, work_in
from pinnace.cli.declaring.fields import Options, Section, arguments, key_values, text
from pinnace.cli.declaring.values import NEW, PROVIDER
from pinnace.cli.output.printing import CreateOptions

if TYPE_CHECKING:
    from pinnace.cli.common.describing import Describer


class SnapshotLocationCreateOptions(CreateOptions):
    """`snapshot-location create`."""

    names: Sequence[str] = arguments("NAME", NEW)
    provider: str = text(
        "--provider",
        section=Section.WHERE,
        value=PROVIDER,
        help="The plugin that takes the snapshots, such as aws. Required.",
    )
    credential: Mapping[str, str] = credential()
    config: Mapping[str, str] = key_values(
        "--config", section=Section.WHERE, help="Settings of the provider: region=...,k=v,..."
    )
    labels: Mapping[str, str] = key_values(
        "--labels", help="Labels for the VolumeSnapshotLocation object: k=v,..."
    )


@command(
    "create",
    SnapshotLocationCreateOptions,
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
def create(ctx: click.Context, options: SnapshotLocationCreateOptions) -> None:
    """Create a location for snapshots of volumes."""
    work_in("pinnace.cli.location.snapshot").create(ctx, options)


class SnapshotLocationSetOptions(Options):
    """`snapshot-location set`."""

    names: Sequence[str] = arguments("NAME")
    credential: Mapping[str, str] = credential()


@command(
    "set",
    SnapshotLocationSetOptions,
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
def set_(ctx: click.Context, options: SnapshotLocationSetOptions) -> None:
    """Change the credentials of a snapshot location."""
    work_in("pinnace.cli.location.snapshot").change(ctx, options)


def _describer() -> "Describer":
    from pinnace.cli.location.describe import describe_stored_location

    return describe_stored_location


get = get_command(
    "snapshot-location",
    "snapshot locations",
    examples_of_get("snapshot-location", "snapshot locations", "main"),
)
describe = describe_command(
    "snapshot-location",
    "snapshot locations",
    "main",
    help="Describe snapshot locations.",
    describer=_describer,
)
group = group_of(
    "snapshot-location",
    "Work with the locations that volume snapshots are kept in.",
    create,
    get,
    describe,
    set_,
)
