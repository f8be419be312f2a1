"""`backup verify`."""

from collections.abc import Sequence

from pinnace.api.values.durations import Duration
from pinnace.cli.browse.options import BrowseOptions, output_format
from pinnace.cli.common.options import repository_password
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, arguments, comma_list, flag, switch, text
from pinnace.cli.declaring.types import WaitFlag
from pinnace.cli.declaring.values import NAMESPACES, Value


class BackupVerifyOptions(BrowseOptions):
    """Check that backups are whole: files, each item of the tarball, checksums, resource list, volume data.

    The data of volumes is looked for: snapshots of restic and kopia in their repositories, those of
    clouds by asking the cloud, CSI snapshots by the cluster's VolumeSnapshotContents. A server does all
    this itself, and the command waits for what it finds. Data that cannot be looked at is listed as "not
    checked". The exit code is 1 if a backup cannot be relied upon, and 0 if nothing bad was found, even if
    something is "not checked".
    """

    names: Sequence[str] = arguments("[NAME...]")
    all: bool = switch(before="timeout", help="Check all backups.")
    restic_password_file: str = repository_password("restic and kopia", before="timeout")
    read_data: str = text(
        value=Value("SHARE"),
        before="timeout",
        help="Also read this share of the data in restic and kopia repositories: 10%, 100%, or 1/5 for one of"
        " five parts.",
    )
    ask_drivers: bool = switch(
        before="timeout",
        help="With --location: make a VolumeSnapshotContent for each CSI snapshot without one in the cluster,"
        " so that its driver looks for it; it is removed again, and the snapshot stays.",
    )
    restore: bool = switch(
        before="timeout",
        help="Also restore the pods of the backup and what they need into scratch namespaces, see what"
        " becomes"
        " ready, and remove them again.",
    )
    include_namespaces: Sequence[str] = comma_list(
        section=Section.WHAT, value=NAMESPACES, help="With --restore: only these namespaces of the backup."
    )
    ready_timeout: Duration = flag(
        type=WaitFlag(),
        default="5m0s",
        before="timeout",
        help="With --restore: how long pods may take to be ready; with a server also how long the restore"
        " may.",
    )
    output_format: str | None = output_format("table", "json", "yaml")


verify = lazy_command(
    "verify",
    BackupVerifyOptions,
    "pinnace.cli.browse.verifying:verify_backups",
    noun="backup",
    short_help="Check that backups are whole.",
    examples=(
        ("Check one backup", "pinnace backup verify shop"),
        ("Restore it on trial too, and see whether it works", "pinnace backup verify shop --restore"),
        (
            "With the data of volumes in their repositories",
            "pinnace --location ./backups backup verify shop --restic-password-file ./password",
        ),
    ),
)
