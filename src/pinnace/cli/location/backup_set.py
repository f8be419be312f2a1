"""`backup-location set`. (docs/spec: CLI 7.3)"""

from collections.abc import Mapping, Sequence

import click

from pinnace.cli.common.options import credential
from pinnace.cli.declaring.commands import command, work_in
from pinnace.cli.declaring.fields import Options, arguments, text, tristate
from pinnace.cli.declaring.values import FILE


class BackupLocationSetOptions(Options):
    """`backup-location set`: what is empty or None stays as it is."""

    names: Sequence[str] = arguments("NAME")
    cacert: str = text(value=FILE, help="File with the CA bundle to verify the store with.")
    credential: Mapping[str, str] = credential()
    default: bool | None = tristate(
        help="Make it the location of backups that name none (=false: no longer)."
    )


@command(
    "set",
    BackupLocationSetOptions,
    noun="backup-location",
    short_help="Change a backup location.",
    examples=(
        ("Make it the default", "pinnace backup-location set main --default"),
        ("Use other credentials", "pinnace backup-location set main --credential cloud-credentials=cloud"),
        ("Trust another certificate authority", "pinnace backup-location set main --cacert ./ca.pem"),
    ),
)
def set_(ctx: click.Context, options: BackupLocationSetOptions) -> None:
    """Change a backup location: what is not given stays as it is."""
    work_in("pinnace.cli.location.backup").change(ctx, options)
