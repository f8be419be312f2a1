"""Makes the commands that all nouns have: `get`, `describe`, `logs`, `delete`.

A noun is a key of `kinds.KINDS`; the code of a command is loaded when it is called.
"""

from typing import Any

import click

from pinnace.cli.common.options import (
    DeleteOptions,
    DescribeOptions,
    DescribeRunOptions,
    GetOptions,
    LogsOptions,
)
from pinnace.cli.declaring.commands import Command, Examples, Group, lazy_command

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def group_of(name: str, help: str, *commands: click.Command, **settings: Any) -> Group:
    """The group of a noun. `settings` as in `Group`."""
    made = Group(name=name, help=help, context_settings=CONTEXT, **settings)
    for each in commands:
        made.add_command(each)
    return made


def get_command(noun: str, things: str, examples: Examples) -> Command:
    """`get` of a noun."""
    return lazy_command(
        "get",
        GetOptions,
        "pinnace.cli.common.get:get",
        noun,
        noun=noun,
        words={"things": things},
        short_help=f"List {things}.",
        help=f"List {things}, or show the named ones.",
        examples=examples,
    )


def examples_of_get(noun: str, things: str, name: str) -> Examples:
    """The examples of `get` of most nouns; `name` is that of an object."""
    return (
        (f"List all {things}", f"pinnace {noun} get"),
        ("Show one as it is stored", f"pinnace {noun} get {name} -o yaml"),
        (
            "Print only the names, for scripts",
            f"pinnace {noun} get -o jsonpath='{{.items[*].metadata.name}}'",
        ),
        ("The newest last", f"pinnace {noun} get --sort-by .metadata.creationTimestamp"),
        (f"Follow {things} of a server until Ctrl-C", f"pinnace {noun} get --watch"),
    )


def describe_command(
    noun: str, things: str, name: str, *, help: str, describer: str, details: str = ""
) -> Command:
    """`describe` of a noun; with `details`, the help of that flag, also those of downloads.

    Args:
        name: that of an object, for the examples.
        describer: the `module:function` that describes one object, a `describing.Describer`.
    """
    return lazy_command(
        "describe",
        DescribeRunOptions if details else DescribeOptions,
        "pinnace.cli.common.reading:describe",
        noun,
        describer,
        noun=noun,
        words={"things": f"{noun}s", "details": details},
        short_help=f"Describe {things}.",
        help=help,
        paged=True,
        examples=(
            ("Describe one", f"pinnace {noun} describe {name}"),
            (f"Describe all {things}", f"pinnace {noun} describe"),
            ("Describe those with a label", f"pinnace {noun} describe -l team=web"),
        ),
    )


def logs_command(noun: str, examples: Examples) -> Command:
    """`logs` of a noun."""
    return lazy_command(
        "logs",
        LogsOptions,
        "pinnace.cli.common.reading:logs",
        noun,
        noun=noun,
        words={"object": noun.upper()},
        short_help=f"Print the log of a {noun}.",
        help=f"Print the log of a finished {noun}.",
        paged=True,
        examples=examples,
    )


def delete_command(
    noun: str,
    things: str,
    *,
    options: type[DeleteOptions] = DeleteOptions,
    volume_data: str = "",
    **settings: Any,
) -> Command:
    """`delete` of a noun.

    Args:
        volume_data: the `module:function` that deletes what lies outside of the files, a
            `deletion.VolumeDataDeletion`; empty for kinds without such data.
        settings: as in `command`.
    """
    work = "pinnace.cli.common.deletion:delete"
    return lazy_command(
        "delete", options, work, noun, volume_data, noun=noun, words={"things": things}, **settings
    )
