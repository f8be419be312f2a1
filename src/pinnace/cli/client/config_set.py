"""`client config set`. (docs/spec: CLI 8.3)"""

from collections.abc import Sequence

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options, arguments
from pinnace.cli.declaring.values import Value
from pinnace.cli.guard import complain
from pinnace.cli.settings import SETTINGS


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
