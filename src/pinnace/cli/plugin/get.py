"""`plugin get`. (docs/spec: CLI 8.1)"""

import click

from pinnace.api.values.durations import Duration
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Section, flag
from pinnace.cli.declaring.types import WaitFlag
from pinnace.cli.declaring.values import formats
from pinnace.cli.output.printing import FormatOptions


class PluginGetOptions(FormatOptions):
    """`plugin get`; its table has neither labels nor columns of labels."""

    timeout: Duration = flag(type=WaitFlag(), default="5s", help="How long to wait for the server.")
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
