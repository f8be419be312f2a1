"""`backup download`. (docs/spec: CLI 4.6)"""

from collections.abc import Sequence

from pinnace.cli.common.options import FetchOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments, switch, text
from pinnace.cli.declaring.values import FILE


class BackupDownloadOptions(FetchOptions, what="it"):
    """Download the tarball of a backup."""

    names: Sequence[str] = arguments("NAME")
    output: str = text(
        "-o",
        "--output",
        value=FILE,
        before="timeout",
        help="File to write; default NAME-data.tar.gz in the current folder.",
    )
    force: bool = switch(before="timeout", help="Overwrite the file if it exists.")


download = lazy_command(
    "download",
    BackupDownloadOptions,
    "pinnace.cli.backup.downloading:download",
    noun="backup",
    short_help="Download the contents of a backup.",
    examples=(
        ("Save the tarball as shop-data.tar.gz", "pinnace backup download shop"),
        ("Under another name", "pinnace backup download shop -o /tmp/shop.tar.gz --force"),
        ("From a slow store", "pinnace backup download shop --timeout 10m"),
    ),
)
