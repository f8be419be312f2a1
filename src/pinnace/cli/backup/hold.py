"""`backup hold` and `backup release`. (docs/adr/128)"""

from collections.abc import Sequence

from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Options, arguments, text


class BackupReleaseOptions(Options):
    """Let backups go again that are held: rules, their time to live and requests may delete them."""

    names: Sequence[str] = arguments("NAME [NAME...]")


class BackupHoldOptions(Options):
    """Hold backups: neither rules, nor their time to live, nor a request deletes them until their release.

    With a server, an annotation of the Backup holds it in this cluster. With --location, a file beside the
    backup does, and every server on the bucket obeys it.
    """

    names: Sequence[str] = arguments("NAME [NAME...]")
    reason: str = text(help="The reason, which whoever tries to delete the backup is told.")


hold = lazy_command(
    "hold",
    BackupHoldOptions,
    "pinnace.cli.backup.holding:hold",
    noun="backup",
    short_help="Hold backups, so that nothing deletes them.",
    examples=(
        ("Hold one", "pinnace backup hold shop --reason 'audit of 2026'"),
        ("Hold two", "pinnace backup hold shop blog"),
        ("On every server of a bucket", "pinnace --location s3://bucket backup hold shop"),
    ),
)
release = lazy_command(
    "release",
    BackupReleaseOptions,
    "pinnace.cli.backup.holding:release",
    noun="backup",
    short_help="Let backups go again that are held.",
    examples=(
        ("Release one", "pinnace backup release shop"),
        ("Release two", "pinnace backup release shop blog"),
        ("One that a file in a location holds", "pinnace --location s3://bucket backup release shop"),
    ),
)
