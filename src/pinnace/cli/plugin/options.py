"""The flag of the commands that restart the server."""

from pinnace.cli.declaring.fields import Options, switch


class PluginChangeOptions(Options):
    """`plugin add` and `plugin remove`."""

    confirm: bool = switch(help="Do not ask, as on a terminal, before the server restarts.")
