"""Makes the commands and flags that several nouns share: `get`, `describe`, `logs`, `delete`, filters.

A noun is a key of `kinds.KINDS`; the code of a command is loaded when it is called.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pinnace.cli.common.options import DeleteOptions, DescribeOptions, GetOptions, LogsOptions
from pinnace.cli.declaring.tables import noun_first
from pinnace.cli.flags import (
    Command,
    DurationFlag,
    Group,
    Number,
    OrSelectorFlag,
    PagedCommand,
    SelectorFlag,
    WaitFlag,
    boolean,
    check_arguments,
    comma_list,
    key_values,
    optional_boolean,
    takes,
)
from pinnace.cli.nouns import bare_name
from pinnace.cli.output.printing import listing_flags

if TYPE_CHECKING:
    from pinnace.cli.common.deletion import VolumeDataDeletion
    from pinnace.cli.common.describing import Describer

Decorator = Callable[[Any], Any]

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def group_of(
    name: str, help: str, *commands: click.Command, lazy: dict[str, tuple[str, str]] | None = None
) -> Group:
    """The group of a noun. `lazy` as in `Group`."""
    made = Group(name=name, help=help, context_settings=CONTEXT, lazy=lazy)
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
    """The positional arguments. The command checks their number itself, with a message of its own.

    Names of objects of the command's noun may be given as TYPE/NAME, as `-o name` prints them.
    """
    places = ["" if "KIND" in place or "TEXT" in metavar else place for place in metavar.split()]

    def bare(ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
        noun = noun_first(ctx.command_path.split()[1:]).rpartition(" ")[0]
        try:
            return tuple(
                bare_name(word, noun) if places[min(at, len(places) - 1)] else word
                for at, word in enumerate(words)
            )
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None

    return click.argument("names", nargs=-1, metavar=metavar, callback=bare)


def selector_option(sentence: str) -> Decorator:
    """`-l` of commands that read: any text that the API server understands."""
    return click.option("-l", "--selector", default="", help=f"{sentence} that match this label selector.")


def operation_timeout_option() -> Decorator:
    """How long operations of plugins may take."""
    return click.option(
        "--item-operation-timeout",
        type=DurationFlag(),
        help="How long an operation that a plugin has started may take: 4h if not given.",
    )


def upload_option() -> Decorator:
    """How many files of a volume are saved at once."""
    return click.option(
        "--parallel-files-upload",
        type=Number(whole=True, least=0),
        default=0,
        help="How many files of a volume are read at once; 0 for the uploader's own choice.",
    )


def restored_files_options() -> Decorator:
    """How files of volumes are restored."""
    return all_of(
        optional_boolean(
            "--write-sparse-files", help="Write long runs of zeros in files of pod volumes as holes."
        ),
        click.option(
            "--parallel-files-download",
            type=Number(whole=True, least=0),
            default=0,
            help="How many files of a volume are written at once; 0 for the uploader's own choice.",
        ),
    )


def movement_options(function: Any) -> Any:
    """Whether the data of CSI snapshots is moved into the location, and by which program."""
    mover = click.option(
        "--data-mover", default="", help="The program that moves the data: velero, the built-in one."
    )
    moved = optional_boolean(
        "--snapshot-move-data",
        help="Move the data of CSI snapshots into the location (with a server and node agents).",
    )
    return moved(mover(function))


def labels_option(kind: str) -> Decorator:
    """`--labels` of what is created."""
    return key_values("--labels", help=f"Labels for the {kind} object: k=v,...")


def annotations_option(kind: str) -> Decorator:
    """`--annotations` of what is created."""
    return key_values("--annotations", help=f"Annotations for the {kind} object: k=v,...")


def filter_options(verb: str, namespaces: str = "Namespaces") -> Decorator:
    """Which namespaces, resources and objects to `verb`."""
    return all_of(
        comma_list("--include-namespaces", default="*", help=f"{namespaces} to {verb}, '*' for all."),
        comma_list("--exclude-namespaces", help="Namespaces to leave out."),
        comma_list("--include-resources", help=f"Resource types to {verb} (resource.group), '*' for all."),
        comma_list("--exclude-resources", help="Resource types to leave out."),
        click.option(
            "-l",
            "--selector",
            type=SelectorFlag(),
            help=f"{verb.capitalize()} only objects that match this label selector.",
        ),
        click.option(
            "--or-selector",
            type=OrSelectorFlag(),
            default="",
            help=f"{verb.capitalize()} only objects that match one of these: 'a=b or c in (d,e)'.",
        ),
        optional_boolean("--include-cluster-resources", help="Include cluster-scoped objects."),
    )


def wait_options() -> Decorator:
    """Whether to wait for the end of a run, and whether the exit code then tells how it ended."""
    return all_of(
        boolean("-w", "--wait", help="Wait for the end (always so with --location)."),
        optional_boolean(
            "--exit-code",
            help="With --wait: exit with 3 for PartiallyFailed, 4 for Failed, 2 for FailedValidation, as "
            "always with --location. `client config set exit-code=true` makes it the default.",
        ),
        click.option(
            "--progress",
            type=click.Choice(["auto", "plain", "json", "none"]),
            default="auto",
            show_default=True,
            help="How progress is shown on stderr: auto redraws lines on a terminal.",
        ),
    )


def scoped_filter_options(verb: str) -> Decorator:
    """Which resources to `verb`, each scope for itself; not together with the filters for all resources."""
    return all_of(
        comma_list(
            "--include-cluster-scoped-resources",
            help=f"Cluster-scoped resource types to {verb}, '*' for all.",
        ),
        comma_list(
            "--exclude-cluster-scoped-resources",
            help="Cluster-scoped resource types to leave out, '*' for all.",
        ),
        comma_list(
            "--include-namespace-scoped-resources", help=f"Namespaced resource types to {verb}, '*' for all."
        ),
        comma_list(
            "--exclude-namespace-scoped-resources",
            help="Namespaced resource types to leave out, '*' for all.",
        ),
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
            type=WaitFlag(),
            default="1m0s",
            show_default=True,
            help=f"How long to wait for {what}.",
        ),
        _tls_options("the download"),
    )


def get_command(noun: str, things: str) -> click.Command:
    """`get` of a noun."""

    @click.command(
        "get", cls=Command, short_help=f"List {things}.", help=f"List {things}, or show the named ones."
    )
    @names_argument("[NAME...]")
    @selector_option(f"Show only {things}")
    @listing_flags
    @takes(GetOptions)
    def get(ctx: click.Context, options: GetOptions) -> None:
        from pinnace.cli.common.get import get

        get(ctx, noun, options)

    return get


def describe_command(
    noun: str, help: str, *, describer: "Callable[[], Describer]", details: str = ""
) -> click.Command:
    """`describe` of a noun; with `details`, the help of that flag, also those of downloads."""
    more = all_of()
    if details:
        more = all_of(
            boolean("--details", help=details),
            click.option(
                "-o",
                "--output",
                default="plaintext",
                show_default=True,
                help="plaintext, or json when one is described.",
            ),
            _tls_options("downloads"),
        )

    @click.command("describe", cls=PagedCommand, short_help=f"Describe {noun}s.", help=help)
    @names_argument("[NAME...]")
    @selector_option(f"Describe only {noun}s")
    @more
    @takes(DescribeOptions)
    def describe(ctx: click.Context, options: DescribeOptions) -> None:
        from pinnace.cli.common.reading import describe

        describe(ctx, noun, options, describer())

    return describe


def logs_command(noun: str) -> click.Command:
    """`logs` of a noun."""

    @click.command(
        "logs",
        cls=PagedCommand,
        short_help=f"Print the log of a {noun}.",
        help=f"Print the log of a finished {noun}.",
    )
    @names_argument(noun.upper())
    @download_options("the log")
    @takes(LogsOptions)
    def logs(ctx: click.Context, options: LogsOptions) -> None:
        from pinnace.cli.common.reading import logs

        check_arguments(options.names, exactly=1)
        logs(ctx, noun, options)

    return logs


def delete_command(
    noun: str,
    things: str,
    *,
    short_help: str,
    help: str,
    volume_data: "Callable[[], VolumeDataDeletion] | None" = None,
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
    @takes(DeleteOptions)
    def delete(ctx: click.Context, options: DeleteOptions) -> None:
        from pinnace.cli.common.deletion import delete

        delete(ctx, noun, options, volume_data)

    return delete
