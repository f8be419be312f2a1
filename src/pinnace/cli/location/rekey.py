"""`backup-location rekey`: other recipients for backups that exist. Not of Velero. (ADR 124)"""

from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Options


class RekeyOptions(Options):
    """Wrap the keys of all encrypted backups and restores for the recipients of PINNACE_RECIPIENTS. Needs
    --location, and an identity that opens them. Only key files are written; those for the former recipients
    stay, and so does what these can read.
    """


rekey = lazy_command(
    "rekey",
    RekeyOptions,
    "pinnace.cli.location.rekeying:rekey_all",
    noun="backup-location",
    short_help="Wrap the keys of encrypted backups for other recipients.",
    examples=(
        (
            "Let the recipients of PINNACE_RECIPIENTS open all backups",
            "pinnace --location ./backups --identity-file key.txt backup-location rekey",
        ),
        (
            "The same in a bucket, by a key of the cloud",
            "pinnace --location 's3://bucket/prefix?encryption.kms=awskms:///alias/backups'"
            " backup-location rekey",
        ),
        (
            "With the recipients in the URL of the location",
            "pinnace --location 's3://bucket/prefix?encryption.recipients=age1...' --identity-file key.txt"
            " backup-location rekey",
        ),
    ),
)
