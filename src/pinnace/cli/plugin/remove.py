"""`plugin remove`. (docs/spec: CLI 8.1)"""

from collections.abc import Sequence

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import arguments
from pinnace.cli.plugin.options import PluginChangeOptions


class PluginRemoveOptions(PluginChangeOptions):
    """`plugin remove`."""

    names: Sequence[str] = arguments("NAME|IMAGE")


@command(
    "remove",
    PluginRemoveOptions,
    short_help="Remove a plugin from the server.",
    examples=(
        ("By its name", "pinnace plugin remove our-plugin"),
        ("By its image", "pinnace plugin remove registry.example.com/our-plugin:v1"),
        ("From a server in another namespace", "pinnace plugin remove our-plugin -n backup"),
    ),
)
def remove(ctx: click.Context, options: PluginRemoveOptions) -> None:
    """Remove a plugin, by the name of its init container or by its image.

    The server restarts: what it does now fails.
    """
    from pinnace.cli.plugin import run as plugin_run

    plugin_run.remove(ctx, options.names[0], confirm=options.confirm)
