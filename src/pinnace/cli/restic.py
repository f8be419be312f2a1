"""`restic repo get`. (docs/spec: CLI 7.6)"""

from typing import Any

import click

from pinnace.cli.backup import flags_in_order
from pinnace.cli.flags import Command, Group
from pinnace.cli.output import output_flags, parse_output_flags

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

group = Group(name="restic", help="Work with restic, which backs up volumes.", context_settings=_SETTINGS)
repo = Group(name="repo", help="Work with restic repositories.", context_settings=_SETTINGS)


@click.command("get", cls=Command, short_help="List restic repositories.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-l", "--selector", default="", help="Show only repositories that match this label selector.")
@output_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], selector: str, **flags: Any) -> None:
    """List restic repositories, or show the named ones."""
    output = parse_output_flags(*flags_in_order(flags), default="table")
    from pinnace.cli import objects, server_kinds

    objects.get(ctx, server_kinds.RESTIC_REPOSITORY, names, selector, output)


repo.add_command(get)
group.add_command(repo)
