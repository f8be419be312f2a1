"""`repo change-password`: declared here, done in `changing_password`."""

from pinnace.cli.common.options import repository_password
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Options, text
from pinnace.cli.declaring.values import FILE, LOCATION


class ChangePasswordOptions(Options):
    """Change the password of the repositories of volumes, while backups and restores go on.

    With a server, the Secrets velero-repo-credentials and velero-restic-credentials get the new one, and so
    do the repositories of all locations without a Secret of their own. restic and kopia run on this machine,
    which has to reach the store. A change that was interrupted is completed by the same command.
    """

    new_password_file: str = text(
        value=FILE, help="File with the new password. [default: a random one; needed with --location]"
    )
    storage_location: str = text(
        value=LOCATION, help="Change the password in the Secret that this location names for itself."
    )
    restic_password_file: str = repository_password("restic and kopia")


change_password = lazy_command(
    "change-password",
    ChangePasswordOptions,
    "pinnace.cli.process.changing_password:change_password",
    noun="repo",
    short_help="Change the password of volume repositories.",
    examples=(
        ("Give the repositories of a server a random password", "pinnace repo change-password"),
        (
            "Without a server, from one file to another",
            "pinnace --location ./backups repo change-password --restic-password-file ./password"
            " --new-password-file ./new-password",
        ),
        (
            "Of the repositories of a location that has a password of its own",
            "pinnace repo change-password --storage-location offsite",
        ),
    ),
)
