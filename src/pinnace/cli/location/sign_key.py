"""`backup-location sign-key`: a key that signs backups. Not of Velero. (ADR 125)"""

from collections.abc import Sequence

from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Options, arguments, text
from pinnace.cli.declaring.values import FILE


class SignKeyOptions(Options):
    """Make a key that signs backups, and print its public half. With the name of a location, the server
    gets the private half in a Secret, and signs the location's backups from then on. With --file the private
    half is written to a new file of yours instead; a location that is named then trusts it.
    """

    names: Sequence[str] = arguments("[NAME]")
    file: str = text(value=FILE, help="New file for the private key, for backups without a server.")
    secret: str = text(
        help="Name of the Secret to create; by default that of the location with -signing-key."
    )


sign_key = lazy_command(
    "sign-key",
    SignKeyOptions,
    "pinnace.cli.location.signing:make_key",
    noun="backup-location",
    short_help="Make a key that signs backups.",
    examples=(
        ("Have the server sign the backups of a location", "pinnace backup-location sign-key main"),
        ("A key for backups without a server", "pinnace backup-location sign-key --file ./signing-key.pem"),
        (
            "A key of a second cluster, which the location trusts",
            "pinnace backup-location sign-key main --file ./second.pem",
        ),
    ),
)
