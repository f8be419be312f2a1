"""Commands and flags that several nouns have alike: `get`, `describe`, `logs`, `delete`, filters, labels.

A noun is a key of `kinds.KINDS`; what a command does is loaded when it is called.
"""

from collections.abc import Callable
from typing import Any

import click

from pinnace.cli.flags import (
    CommaList,
    Command,
    DurationFlag,
    Group,
    KeyValueMap,
    SelectorFlag,
    boolean,
    check_arguments,
    optional_boolean,
)
from pinnace.cli.output.printing import OutputFlags, output_flags, parse_output_flags

Decorator = Callable[[Any], Any]

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def group_of(name: str, help: str, *commands: click.Command) -> Group:
    """The group of a noun."""
    made = Group(name=name, help=help, context_settings=CONTEXT)
    for command in commands:
        made.add_command(command)
    return made


def all_of(*decorators: Decorator) -> Decorator:
    """Several decorators as one, in the order in which the help shows them."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def names_argument(metavar: str) -> Decorator:
    """The words that are no flags; their number is checked by the command, which words it as expected."""
    return click.argument("names", nargs=-1, metavar=metavar)


def selector_option(sentence: str) -> Decorator:
    """`-l` of commands that read: any text that the API server understands."""
    return click.option("-l", "--selector", default="", help=f"{sentence} that match this label selector.")


def labels_option(kind: str) -> Decorator:
    """`--labels` of what is created."""
    return click.option(
        "--labels", type=KeyValueMap(), multiple=True, help=f"Labels for the {kind} object: k=v,..."
    )


def config_option(help: str) -> Decorator:
    """`--config` of locations."""
    return click.option("--config", type=KeyValueMap(), multiple=True, help=help)


def filter_options(verb: str, namespaces: str = "Namespaces") -> Decorator:
    """Which namespaces, resources and objects to `verb`."""
    return all_of(
        click.option(
            "--include-namespaces",
            type=CommaList(),
            default="*",
            help=f"{namespaces} to {verb}, '*' for all.",
        ),
        click.option("--exclude-namespaces", type=CommaList(), help="Namespaces to leave out."),
        click.option(
            "--include-resources",
            type=CommaList(),
            help=f"Resource types to {verb} (resource.group), '*' for all.",
        ),
        click.option("--exclude-resources", type=CommaList(), help="Resource types to leave out."),
        click.option(
            "-l",
            "--selector",
            type=SelectorFlag(),
            help=f"{verb.capitalize()} only objects that match this label selector.",
        ),
        optional_boolean("--include-cluster-resources", help="Include cluster-scoped objects."),
    )


def _tls_options(what: str) -> Decorator:
    return all_of(
        boolean("--insecure-skip-tls-verify", help=f"Accept any TLS certificate for {what}."),
        click.option("--cacert", default="", help=f"CA bundle to verify {what} with."),
    )


def download_options(what: str) -> Decorator:
    """How one file is fetched."""
    return all_of(
        click.option(
            "--timeout",
            type=DurationFlag(),
            default="1m0s",
            show_default=True,
            help=f"How long to wait for {what}.",
        ),
        _tls_options("the download"),
    )


def pop_output(flags: dict[str, Any], *, default: str | None = None) -> OutputFlags:
    """Take the output flags out of the others. Raises click.UsageError for a format that is none."""
    return parse_output_flags(
        flags.pop("output_format"), flags.pop("label_columns"), flags.pop("show_labels"), default=default
    )


def get_command(noun: str, things: str) -> click.Command:
    """`get` of a noun."""

    @click.command(
        "get", cls=Command, short_help=f"List {things}.", help=f"List {things}, or show the named ones."
    )
    @names_argument("[NAME...]")
    @selector_option(f"Show only {things}")
    @output_flags
    @click.pass_context
    def get(ctx: click.Context, /, names: tuple[str, ...], selector: str, **flags: Any) -> None:
        output = pop_output(flags, default="table")
        from pinnace.cli.backend import objects

        objects.get(ctx, noun, names, selector, output)

    return get


def describe_command(noun: str, help: str, *, details: str = "") -> click.Command:
    """`describe` of a noun; with `details`, the help of that flag, also those of downloads."""
    more = all_of(boolean("--details", help=details), _tls_options("downloads")) if details else all_of()

    @click.command("describe", cls=Command, short_help=f"Describe {noun}s.", help=help)
    @names_argument("[NAME...]")
    @selector_option(f"Describe only {noun}s")
    @more
    @click.pass_context
    def describe(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
        from pinnace.cli.backend import reading

        reading.describe(ctx, noun, names, **flags)

    return describe


def logs_command(noun: str) -> click.Command:
    """`logs` of a noun."""

    @click.command(
        "logs",
        cls=Command,
        short_help=f"Print the log of a {noun}.",
        help=f"Print the log of a finished {noun}.",
    )
    @names_argument(noun.upper())
    @download_options("the log")
    @click.pass_context
    def logs(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
        from pinnace.cli.backend import reading

        check_arguments(names, exactly=1)
        reading.logs(ctx, noun, names[0], **flags)

    return logs


def delete_command(
    noun: str, things: str, *, short_help: str, help: str, volume_data: bool = False
) -> click.Command:
    """`delete` of a noun; with `volume_data`, also the flags for data that lies outside of the files."""
    more = all_of()
    if volume_data:
        more = all_of(
            boolean("--force", help="Go on where data of volumes cannot be deleted, and leave it behind."),
            click.option(
                "--restic-password-file",
                type=click.Path(),
                default="",
                help="With --location: the password of the restic repositories. [default: the environment's"
                " RESTIC_PASSWORD_FILE or RESTIC_PASSWORD, else the Secret of the server's namespace]",
            ),
        )

    @click.command("delete", cls=Command, short_help=short_help, help=help)
    @names_argument("[NAME...]")
    @boolean("--confirm", help="Do not ask.")
    @boolean("--all", help=f"Delete all {things}.")
    @click.option(
        "-l", "--selector", type=SelectorFlag(), help=f"Delete the {things} that match this label selector."
    )
    @more
    @click.pass_context
    def delete(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
        from pinnace.cli.backend import deletion

        deletion.delete(
            ctx,
            noun,
            names,
            confirm=flags["confirm"],
            chosen=deletion.Chosen(everything=flags["all"], selector=flags["selector"]),
            volume_data=deletion.VolumeDataOptions(
                force=flags.get("force", False), password_file=flags.get("restic_password_file", "")
            ),
        )

    return delete
