"""`plugin add`. (docs/spec: CLI 8.1)"""

from collections.abc import Sequence

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import arguments, flag
from pinnace.cli.declaring.types import Enum
from pinnace.cli.plugin.options import PluginChangeOptions


class PluginAddOptions(PluginChangeOptions):
    """`plugin add`."""

    images: Sequence[str] = arguments("IMAGE")
    image_pull_policy: str = flag(
        type=Enum("Always", "IfNotPresent", "Never"),
        default="IfNotPresent",
        before="confirm",
        help="When the image is pulled: Always, IfNotPresent or Never.",
    )


@command(
    "add",
    PluginAddOptions,
    short_help="Add a plugin to the server.",
    examples=(
        ("Add a plugin's image", "pinnace plugin add registry.example.com/our-plugin:v1"),
        (
            "Pull it each time",
            "pinnace plugin add registry.example.com/our-plugin:dev --image-pull-policy Always",
        ),
        (
            "To a server in another namespace",
            "pinnace plugin add registry.example.com/our-plugin:v1 -n backup",
        ),
    ),
)
def add(ctx: click.Context, options: PluginAddOptions) -> None:
    """Add a plugin's image to the Deployment of the server, which restarts: what it does now fails."""
    from pinnace.cli.plugin import run as plugin_run

    plugin_run.add(ctx, options.images[0], options.image_pull_policy, confirm=options.confirm)
