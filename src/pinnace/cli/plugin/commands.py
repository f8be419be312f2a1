"""`plugin add|remove|get`. (docs/spec: CLI 8.1)"""

from typing import TYPE_CHECKING, Final

import click

from pinnace.cli.common.commands import group_of
from pinnace.cli.flags import Command, Enum, WaitFlag, boolean, check_arguments, takes
from pinnace.cli.output.printing import OutputOptions

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration


_CONFIRM: Final = boolean("--confirm", help="Do not ask, as on a terminal, before the server restarts.")


@click.command("add", cls=Command, short_help="Add a plugin to the server.")
@click.argument("images", nargs=-1, metavar="IMAGE")
@click.option(
    "--image-pull-policy", type=Enum("Always", "IfNotPresent", "Never"), default="IfNotPresent",
    show_default=True, help="When the image is pulled: Always, IfNotPresent or Never.",
)  # fmt: skip
@_CONFIRM
@click.pass_context
def add(ctx: click.Context, /, images: tuple[str, ...], image_pull_policy: str, confirm: bool) -> None:
    """Add a plugin's image to the Deployment of the server, which restarts: what it does now fails."""
    from pinnace.cli.plugin import run as plugin_run

    check_arguments(images, exactly=1)
    plugin_run.add(ctx, images[0], image_pull_policy, confirm=confirm)


@click.command("remove", cls=Command, short_help="Remove a plugin from the server.")
@click.argument("names", nargs=-1, metavar="NAME|IMAGE")
@_CONFIRM
@click.pass_context
def remove(ctx: click.Context, /, names: tuple[str, ...], confirm: bool) -> None:
    """Remove a plugin, by the name of its init container or by its image.

    The server restarts: what it does now fails.
    """
    from pinnace.cli.plugin import run as plugin_run

    check_arguments(names, exactly=1)
    plugin_run.remove(ctx, names[0], confirm=confirm)


class PluginGetOptions(OutputOptions):
    """`plugin get`; its table has neither labels nor columns of labels."""

    timeout: "Duration"


@click.command("get", cls=Command, short_help="List the plugins of the server.")
@click.option(
    "--timeout", type=WaitFlag(), default="5s", show_default=True, help="How long to wait for the server."
)
@click.option(
    "-o",
    "--output",
    "output_format",
    help="Output format: table, json, yaml, name, jsonpath=TEMPLATE or custom-columns=NAME:PATH,...",
)
@takes(PluginGetOptions)
def get(ctx: click.Context, options: PluginGetOptions) -> None:
    """List the plugins that the server has, its built-in ones included."""
    from pinnace.cli.plugin import run as plugin_run

    output = options.printed(default="table")
    if output.format == "wide":
        raise click.UsageError("-o wide: plugins have only a name and a kind; leave it out")
    plugin_run.get(ctx, output, options.timeout.total_seconds())


group = group_of("plugin", "Work with the plugins of the server.", add, remove, get)
