"""`backup index`."""

from collections.abc import Sequence

from pinnace.cli.browse.options import BrowseOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments


class IndexOptions(BrowseOptions, what="the tarball"):
    """Write the index of a backup that has none, or a damaged one, so that looking into it is quick.

    Needs --location, as files cannot be written through a server.
    """

    names: Sequence[str] = arguments("NAME")


index = lazy_command(
    "index",
    IndexOptions,
    "pinnace.cli.browse.indexing:write",
    noun="backup",
    short_help="Write the index of a backup that has none.",
    examples=(
        ("Write the index of a backup in a folder", "pinnace --location ./backups backup index shop"),
        ("Of one in a bucket", "pinnace --location s3://bucket/prefix backup index shop"),
        ("From a slow store", "pinnace --location s3://bucket backup index shop --timeout 30m"),
    ),
)
