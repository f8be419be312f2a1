"""`client config get|set`. (docs/spec: CLI 8.3)"""

import click

from pinnace.cli.common.commands import group_of
from pinnace.cli.flags import Command, check_arguments
from pinnace.cli.guard import complain
from pinnace.cli.output.printing import data_format, encode
from pinnace.cli.settings import config_path


@click.command("get", cls=Command, short_help="Print settings.")
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@data_format
def get(keys: tuple[str, ...], output_format: str | None) -> None:
    """Print the settings of the config file, or the named ones."""
    from pinnace.cli.client import config as client_config

    settings = client_config.load()
    if output_format is not None:
        wanted = {key: settings.get(key) for key in keys or sorted(settings)}
        click.echo(encode(wanted, output_format).rstrip("\n"))
        return
    for line in client_config.lines(settings, keys):
        click.echo(line)
    if not settings and not keys:
        complain(f"No settings: {config_path()} does not exist or is empty.")


@click.command("set", cls=Command, short_help="Change settings.")
@click.argument("words", nargs=-1, metavar="KEY=VALUE...")
def set_(words: tuple[str, ...]) -> None:
    """Change settings in the config file; an empty value removes one."""
    from pinnace.cli.client import config as client_config

    check_arguments(words, least=1)
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
