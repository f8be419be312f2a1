"""`client config get`. (docs/spec: CLI 8.3)"""

from collections.abc import Sequence

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import arguments
from pinnace.cli.declaring.values import Value
from pinnace.cli.guard import complain
from pinnace.cli.output.printing import DataOptions, encode
from pinnace.cli.settings import SETTINGS, config_path


class ConfigGetOptions(DataOptions):
    """`client config get`."""

    keys: Sequence[str] = arguments("[KEY...]", Value("KEY", words=SETTINGS))


@command(
    "get",
    ConfigGetOptions,
    short_help="Print settings.",
    examples=(
        ("Print all settings", "pinnace client config get"),
        ("Print one", "pinnace client config get namespace"),
        ("For a program", "pinnace client config get -o json"),
    ),
)
def get(_ctx: click.Context, options: ConfigGetOptions) -> None:
    """Print the settings of the config file, or the named ones."""
    from pinnace.cli.client import config as client_config

    keys, settings = options.keys, client_config.load()
    if options.output_format is not None:
        wanted = {key: settings.get(key) for key in keys or sorted(settings)}
        click.echo(encode(wanted, options.output_format).rstrip("\n"))
        return
    for line in client_config.lines(settings, keys):
        click.echo(line)
    if not settings and not keys:
        complain(f"No settings: {config_path()} does not exist or is empty.")
