"""`plugin add|remove|get`. (docs/spec: CLI 8.1)"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pinnace.cli.common.commands import group_of
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options, Section, arguments, flag, switch
from pinnace.cli.declaring.types import Enum, WaitFlag
from pinnace.cli.declaring.values import formats
from pinnace.cli.output.printing import FormatOptions

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration


class PluginChangeOptions(Options):
    """What the commands have that restart the server."""

    confirm: bool = switch("--confirm", help="Do not ask, as on a terminal, before the server restarts.")


class PluginAddOptions(PluginChangeOptions):
    """`plugin add`."""

    images: Sequence[str] = arguments("IMAGE")
    image_pull_policy: str = flag(
        "--image-pull-policy",
        type=Enum("Always", "IfNotPresent", "Never"),
        default="IfNotPresent",
        show_default=True,
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


class PluginGetOptions(FormatOptions):
    """`plugin get`; its table has neither labels nor columns of labels."""

    timeout: "Duration" = flag(
        "--timeout", type=WaitFlag(), default="5s", show_default=True, help="How long to wait for the server."
    )
    output_format: str | None = flag(
        "-o",
        "--output",
        section=Section.OUTPUT,
        value=formats("table", "json", "yaml", "name", "jsonpath=", "custom-columns="),
        help="Output format: table, json, yaml, name, jsonpath=TEMPLATE or custom-columns=NAME:PATH,...",
    )


@command(
    "get",
    PluginGetOptions,
    short_help="List the plugins of the server.",
    examples=(
        ("List the plugins of the server", "pinnace plugin get"),
        ("For a program", "pinnace plugin get -o json"),
        ("From a slow server", "pinnace plugin get --timeout 30s"),
    ),
)
def get(ctx: click.Context, options: PluginGetOptions) -> None:
    """List the plugins that the server has, its built-in ones included."""
    from pinnace.cli.plugin import run as plugin_run

    output = options.printed(default="table")
    if output.format == "wide":
        raise click.UsageError("-o wide: plugins have only a name and a kind; leave it out")
    plugin_run.get(ctx, output, options.timeout.total_seconds())


group = group_of("plugin", "Work with the plugins of the server.", add, remove, get)
