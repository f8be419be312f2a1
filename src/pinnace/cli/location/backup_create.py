"""`backup-location create`. (docs/spec: CLI 7.1)"""

from collections.abc import Mapping, Sequence

from pinnace.api.values.durations import Duration
from pinnace.cli.common.options import credential
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, arguments, duration, flag, key_values, switch, text
from pinnace.cli.declaring.types import Enum
from pinnace.cli.declaring.values import FILE, NEW, PROVIDER
from pinnace.cli.output.printing import CreateOptions


class BackupLocationCreateOptions(CreateOptions):
    """Create a location for backups. It is not looked at here: the server says whether it can use it.
    With --validate the command waits for that.
    """

    names: Sequence[str] = arguments("NAME", NEW)
    provider: str = text(
        section=Section.WHERE,
        value=PROVIDER,
        help="Kind of the store: aws, or filesystem for a folder. Required.",
    )
    bucket: str = text(section=Section.WHERE, help="Bucket to keep them in. Required, except for a folder.")
    prefix: str = text(section=Section.WHERE, help="Path inside the bucket.")
    credential: Mapping[str, str] = credential()
    default: bool = switch(help="Make it the location of backups that name none.")
    backup_sync_period: Duration | None = duration(help="How often to look for backups in it; 0s for never.")
    validation_frequency: Duration | None = duration(help="How often to check it; 0s for once.")
    config: Mapping[str, str] = key_values(
        section=Section.WHERE,
        help="Settings of the provider: region=...,s3Url=..., or path=/folder with filesystem.",
    )
    labels: Mapping[str, str] = key_values(help="Labels for the BackupStorageLocation object: k=v,...")
    cacert: str = text(value=FILE, help="File with the CA bundle to verify the store with.")
    access_mode: str = flag(
        type=Enum("ReadWrite", "ReadOnly"), default="ReadWrite", help="ReadOnly keeps new backups out."
    )
    validate: bool = switch(
        help="Wait until the server has checked the location, and fail if it cannot use it."
    )


create = lazy_command(
    "create",
    BackupLocationCreateOptions,
    "pinnace.cli.location.backup:create",
    noun="backup-location",
    short_help="Create a backup location.",
    examples=(
        (
            "A bucket, and wait until the server has checked it",
            "pinnace backup-location create main --provider aws --bucket backups "
            "--config region=eu-central-1 --credential cloud-credentials=cloud --default --validate",
        ),
        (
            "A folder that is mounted in the server's pod",
            "pinnace backup-location create main --provider filesystem --config path=/srv/backups",
        ),
        (
            "The bucket of another cluster, only to restore from",
            "pinnace backup-location create other --provider aws --bucket theirs --access-mode ReadOnly",
        ),
    ),
)
