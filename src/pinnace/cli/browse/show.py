"""`backup show`."""

from collections.abc import Sequence

import click

from pinnace.cli.browse.options import ObjectsOptions, SecretsOptions, output_format
from pinnace.cli.declaring.commands import command, work_in
from pinnace.cli.declaring.fields import arguments
from pinnace.cli.declaring.values import BACKUP_NAME, STORED


class ShowOptions(SecretsOptions, ObjectsOptions):
    """`backup show`."""

    names: Sequence[str] = arguments("NAME KIND/NAME", BACKUP_NAME, STORED, most=4)
    output_format: str | None = output_format("yaml", "json")


@command(
    "show",
    ShowOptions,
    noun="backup",
    short_help="Show one object of a backup.",
    paged=True,
    examples=(
        ("Show an object as it was", "pinnace backup show everything deployment/web -n shop"),
        ("With the values of a Secret", "pinnace backup show shop secret/password -n shop --show-secrets"),
        ("Put one object back", "pinnace backup show shop configmap/settings -n shop | kubectl apply -f -"),
    ),
)
def show(ctx: click.Context, options: ShowOptions) -> None:
    """Show an object as it was stored in a backup."""
    work_in("pinnace.cli.browse.showing").show(ctx, options)
