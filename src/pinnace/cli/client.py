"""`client config get|set`. (docs/spec: CLI 8.3)"""

import click

from pinnace.cli.flags import Command, Group

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

group = Group(name="client", help="Work with the settings of this client.", context_settings=_SETTINGS)
config = Group(
    name="config",
    help="Read and change the config file: namespace, features, cacert, colorized.",
    context_settings=_SETTINGS,
)


@click.command("get", cls=Command, short_help="Print settings.")
@click.argument("keys", nargs=-1, metavar="[KEY...]")
def get(keys: tuple[str, ...]) -> None:
    """Print the settings of the config file, or the named ones."""
    from pinnace.cli import client_config

    for line in client_config.lines(client_config.load(), keys):
        click.echo(line)


@click.command("set", cls=Command, short_help="Change settings.")
@click.argument("words", nargs=-1, metavar="KEY=VALUE...")
def set_(words: tuple[str, ...]) -> None:
    """Change settings in the config file; an empty value removes one.

    \b
    Namespace of the server:  pinnace client config set namespace=backup
    CSI in descriptions:      pinnace client config set features=EnableCSI
    """
    from pinnace.cli import client_config

    if not words:
        raise click.UsageError("requires at least 1 arg(s), only received 0")
    settings = client_config.load()
    for word in client_config.apply(settings, words):
        click.echo(f'WARNING: invalid KEY=VALUE: "{word}"', err=True)
    client_config.save(settings)


for _command in (get, set_):
    config.add_command(_command)
group.add_command(config)
