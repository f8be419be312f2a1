"""`backup delete`. (docs/spec: CLI 4.4)"""

from pinnace.cli.common.commands import delete_command
from pinnace.cli.common.options import DeleteOptions, repository_password
from pinnace.cli.declaring.fields import switch


class BackupDeleteOptions(DeleteOptions):
    """`backup delete`: also the data of volumes, which lies outside of the files. (docs/adr/021)"""

    force: bool = switch(
        help="Go on where data of volumes, or what plugins clean up, cannot be deleted, and leave it behind."
    )
    restic_password_file: str = repository_password("restic")


delete = delete_command(
    "backup",
    "backups",
    options=BackupDeleteOptions,
    volume_data="pinnace.cli.backup.deletion:delete_volume_data",
    short_help="Delete backups and everything that belongs to them.",
    help="Delete backups: with a server by request, with --location at once. A backup is not deleted while"
    " data of its volumes would be left behind. Its restores, their logs and their results go with it.",
    examples=(
        ("Delete one, after a question", "pinnace backup delete shop"),
        ("Delete two without a question", "pinnace backup delete shop blog --confirm"),
        ("Delete those of a schedule", "pinnace backup delete -l velero.io/schedule-name=daily"),
    ),
)
