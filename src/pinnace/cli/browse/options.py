"""The flags that the commands which look into backups share. Pure."""

from collections.abc import Sequence
from typing import Any

from pinnace.cli.common.options import FetchOptions
from pinnace.cli.declaring.fields import Options, Section, flag, switch, text
from pinnace.cli.declaring.values import NAMESPACE, formats


class BrowseOptions(FetchOptions, what="a file of the backup"):
    """The flags of all of them. `of_namespace` is `-n`: the namespace of the objects, not the server's."""

    names: Sequence[str]
    of_namespace: str = ""
    output_format: str | None = None


class ObjectsOptions(BrowseOptions):
    """The flags of commands about objects."""

    of_namespace: str = text(
        "-n",
        "--namespace",
        value=NAMESPACE,
        before="timeout",
        help="Namespace of the objects. (The server's is given in front of the command, or by the settings.)",
    )


class SecretsOptions(Options):
    """Whether the values of Secrets are shown."""

    show_secrets: bool = switch(help="Show the values of Secrets, which are hidden otherwise.")


def output_format(*words: str) -> Any:
    """Declare `-o` of a command that prints in these forms."""
    listed = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 2 else " or ".join(words)
    return flag(
        "-o", "--output", section=Section.OUTPUT, value=formats(*words), help=f"Output format: {listed}."
    )
