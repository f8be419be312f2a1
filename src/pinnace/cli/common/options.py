"""The flags that several commands have, as structs that the structs of these commands embed.

Those for the content of a run are in `content_options`. What differs between the commands is a word in the
help (`things`, `what`) that the struct of the command gives, or a flag that it declares again.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

import click

from pinnace.cli.declaring.fields import (
    HelpPlacement,
    Options,
    Section,
    arguments,
    flag,
    key_values,
    switch,
    text,
)
from pinnace.cli.declaring.types import SelectorFlag, WaitFlag
from pinnace.cli.declaring.values import (
    FILE,
    SECRET_KEY,
    SELECTOR,
    formats,
)
from pinnace.cli.output.printing import ListingOptions

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector
    from pinnace.api.values.durations import Duration


class TLSOptions(Options):
    """How the server of `tls_of`, a download, is verified."""

    insecure_skip_tls_verify: bool = switch(help="Accept any TLS certificate for {tls_of}.")
    cacert: str = text(value=FILE, help="CA bundle to verify {tls_of} with.")


class FetchOptions(TLSOptions, tls_of="the download"):
    """How one file, `what`, is downloaded."""

    timeout: "Duration" = flag(
        type=WaitFlag(),
        default="1m0s",
        before="insecure_skip_tls_verify",
        help="How long to wait for {what}.",
    )


def repository_password(uploaders: str, **place: Unpack[HelpPlacement]) -> str:
    """Declare the password of the repositories of `uploaders`; empty for the environment or the Secret."""
    declared: str = flag(
        "--restic-password-file",
        type=click.Path(),
        default="",
        value=FILE,
        help=f"With --location: the password of the {uploaders} repositories. [default: the environment's"
        " RESTIC_PASSWORD_FILE or RESTIC_PASSWORD, else the Secret of the server's namespace]",
        **place,
    )
    return declared


def credential() -> Mapping[str, str]:
    """Declare the Secret with the credentials of a location."""
    return key_values(
        "--credential",
        section=Section.WHERE,
        value=SECRET_KEY,
        help="Secret with the credentials, and the key in it: secret=key.",
    )


class SelectorOptions(Options):
    """`-l` of commands that read: any text that the API server understands."""

    selector: str = text(
        "-l",
        "--selector",
        section=Section.WHAT,
        value=SELECTOR,
        help="{selects} {things} that match this label selector.",
    )


class GetOptions(SelectorOptions, ListingOptions, selects="Show only"):
    """`get` of a noun."""

    names: Sequence[str] = arguments("[NAME...]")


class DescribeOptions(SelectorOptions, selects="Describe only"):
    """`describe` of a noun that downloads nothing."""

    names: Sequence[str] = arguments("[NAME...]")
    details: bool = False
    output: str = "plaintext"
    insecure_skip_tls_verify: bool = False
    cacert: str = ""


class DescribeRunOptions(DescribeOptions):
    """`describe` of a noun with files: a backup or a restore."""

    details: bool = switch(help="{details}")
    output: str = text(
        "-o",
        "--output",
        default="plaintext",
        value=formats("plaintext", "json"),
        help="plaintext, or json when one is described.",
    )
    insecure_skip_tls_verify: bool = switch(help="Accept any TLS certificate for downloads.")
    cacert: str = text(value=FILE, help="CA bundle to verify downloads with.")


class LogsOptions(FetchOptions, what="the log"):
    """`logs` of a noun."""

    names: Sequence[str] = arguments("{object}")


class DeleteOptions(Options):
    """`delete` of a noun."""

    names: Sequence[str] = arguments("[NAME...]")
    confirm: bool = switch(help="Do not ask.")
    all: bool = switch(help="Delete all {things}.")
    selector: "LabelSelector | None" = flag(
        "-l",
        "--selector",
        type=SelectorFlag(),
        section=Section.WHAT,
        help="Delete the {things} that match this label selector.",
    )
    force: bool = False
    restic_password_file: str = ""
