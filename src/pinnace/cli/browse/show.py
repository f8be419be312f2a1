"""`backup show`."""

from collections.abc import Sequence

from pinnace.cli.browse.options import ObjectsOptions, SecretsOptions, output_format
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments
from pinnace.cli.declaring.values import BACKUP_NAME, STORED


class ShowOptions(SecretsOptions, ObjectsOptions):
    """Show an object as it was stored in a backup."""

    names: Sequence[str] = arguments("NAME KIND/NAME", BACKUP_NAME, STORED, most=4)
    output_format: str | None = output_format("yaml", "json")


show = lazy_command(
    "show",
    ShowOptions,
    "pinnace.cli.browse.showing:show",
    noun="backup",
    short_help="Show one object of a backup.",
    paged=True,
    examples=(
        ("Show an object as it was", "pinnace backup show everything deployment/web -n shop"),
        ("With the values of a Secret", "pinnace backup show shop secret/password -n shop --show-secrets"),
        ("Put one object back", "pinnace backup show shop configmap/settings -n shop | kubectl apply -f -"),
    ),
)
