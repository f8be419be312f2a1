"""`backup-location set`. (docs/spec: CLI 7.3)"""

from collections.abc import Mapping, Sequence

from pinnace.cli.common.options import credential
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Options, arguments, text, tristate
from pinnace.cli.declaring.values import FILE


class BackupLocationSetOptions(Options):
    """Change a backup location: what is not given stays as it is."""

    names: Sequence[str] = arguments("NAME")
    cacert: str = text(value=FILE, help="File with the CA bundle to verify the store with.")
    credential: Mapping[str, str] = credential()
    default: bool | None = tristate(
        help="Make it the location of backups that name none (=false: no longer)."
    )


set_ = lazy_command(
    "set",
    BackupLocationSetOptions,
    "pinnace.cli.location.backup:change",
    noun="backup-location",
    short_help="Change a backup location.",
    examples=(
        ("Make it the default", "pinnace backup-location set main --default"),
        ("Use other credentials", "pinnace backup-location set main --credential cloud-credentials=cloud"),
        ("Trust another certificate authority", "pinnace backup-location set main --cacert ./ca.pem"),
    ),
)
