"""`client config get|set`. (docs/spec: CLI 8.3)"""

from collections.abc import Sequence

import click

from pinnace.cli.common.commands import group_of
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options, arguments
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


class ConfigSetOptions(Options):
    """`client config set`."""

    words: Sequence[str] = arguments("KEY=VALUE...", Value("KEY", words=tuple(f"{key}=" for key in SETTINGS)))


@command(
    "set",
    ConfigSetOptions,
    short_help="Change settings.",
    examples=(
        ("The namespace of the server", "pinnace client config set namespace=backup"),
        ("Exit codes that say how a run ended", "pinnace client config set exit-code=true"),
        ("Remove a setting", "pinnace client config set features="),
    ),
)
def set_(_ctx: click.Context, options: ConfigSetOptions) -> None:
    """Change settings in the config file; an empty value removes one."""
    from pinnace.cli.client import config as client_config

    words = options.words
    client_config.check_keys(words)
    settings = client_config.load()
    for word in client_config.apply(settings, words):
        complain(f'WARNING: invalid KEY=VALUE: "{word}"')
    for text in client_config.unknown(words):
        complain(f"WARNING: {text}")
    client_config.save(settings)


config = group_of(
    "config", "Read and change the config file: namespace, features, cacert, colorized.", get, set_
)
group = group_of("client", "Work with the settings of this client.", config)
