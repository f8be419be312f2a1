"""Implements `describe` and `logs` for all kinds. (docs/spec: CLI 4.3, 4.5, 5.2, 5.3, 6)"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, cast

import click
from msgspec.structs import replace

from pinnace.api import phases
from pinnace.api.objects import JSONObject, reasons, text
from pinnace.api.values.shell_words import argument
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.backends import open_backend
from pinnace.cli.common.describing import DOWNLOAD_TIMEOUT_SECONDS, Describer, Description, View
from pinnace.cli.common.get import check_one_way, find, nothing_found, settings_for
from pinnace.cli.common.options import DescribeOptions, LogsOptions, TLSOptions
from pinnace.cli.common.waiting import notes_of_idle, waits_for
from pinnace.cli.connect import pasteable, program_name, run_async, settings_of
from pinnace.cli.declaring.commands import loaded
from pinnace.cli.errors import CommandError, InvalidInput, PlainError
from pinnace.cli.guard import PrintableBytes, complain
from pinnace.cli.kinds import BACKUP, KINDS, RESTORE, PrintedKind
from pinnace.cli.output.cells import phase
from pinnace.cli.output.layout import echo_laid_out
from pinnace.cli.output.printing import json_pieces
from pinnace.cli.settings import Settings
from pinnace.client.errors import FileMissing, NoSuchObject, Unrecorded
from pinnace.client.interface import Backend, DownloadOptions, fetch

_OUTPUTS: Final = ("plaintext", "json")
_LOGS: Final = {BACKUP.noun: DownloadTargetKind.BACKUP_LOG, RESTORE.noun: DownloadTargetKind.RESTORE_LOG}


def downloads(
    settings: Settings, options: TLSOptions | DescribeOptions, timeout_seconds: float
) -> DownloadOptions:
    """How files are downloaded. Raises InvalidInput for flags that `--location` would have to ignore."""
    if settings.location is not None and (options.cacert or options.insecure_skip_tls_verify):
        raise InvalidInput(
            "--cacert and --insecure-skip-tls-verify are for downloads through a server; with --location "
            "write caCertFile=... or insecureSkipTLSVerify=true into the S3 URL"
        )
    if options.cacert and not os.path.isfile(options.cacert):  # an address without TLS would not need it
        raise InvalidInput(f"--cacert: there is no file {options.cacert}")
    return DownloadOptions(
        timeout_seconds=timeout_seconds,
        ca_cert=options.cacert or settings.ca_cert,
        insecure=options.insecure_skip_tls_verify,
    )


def describe(ctx: click.Context, noun: str, describer: str, options: DescribeOptions) -> None:
    """Print the descriptions of the named objects or of all, as the describer of the noun makes them."""
    kind, describe_one = KINDS[noun], cast("Describer", loaded(describer))
    check_one_way(options.names, options.selector)
    if options.output not in _OUTPUTS:
        raise InvalidInput(
            f"invalid output format '{options.output}'. valid value are '{', '.join(_OUTPUTS)}'"
        )
    settings = settings_for(ctx, kind, "describe")
    view = View(
        given=settings.given,
        program=program_name(),
        colour=settings.colour,
        details=options.details,
        csi="EnableCSI" in settings.features,
        downloads=downloads(settings, options, DOWNLOAD_TIMEOUT_SECONDS),
    )

    async def work() -> list[Description]:
        async with open_backend(settings) as backend:
            found = await find(backend, kind, options.names, options.selector)
            if not found:
                complain(await nothing_found(backend, kind, options.selector))
            one = options.output == "json" and len(found) == 1
            if options.output == "json" and len(found) > 1:
                complain(f"{len(found)} {kind.plural} are described as text: JSON is for one at a time")
            elif options.output == "plaintext":
                for note in await notes_of_idle(backend, kind, found):
                    complain(note)
            shown = replace(view, json=one)
            return [await describe_one(backend, obj, shown) for obj in found]

    descriptions = run_async(work())
    # One by one and in pieces: a description can have a million lines.
    for position, description in enumerate(descriptions):
        if isinstance(description, str):
            echo_laid_out("\n\n\n" if position else "", colour=settings.colour)
            echo_laid_out(description, colour=settings.colour)
        else:
            for piece in json_pieces(description, indent=4, sort_keys=True):  # docs/spec: BEY 8.3
                click.echo(piece, nl=False)
    if descriptions:
        click.echo()


async def check_free(settings: Settings, kind: PrintedKind, name: str) -> None:
    """Refuse, in a dry run, the name of an object that exists: the run itself would be refused.

    Raises:
        InvalidInput: it is taken.
    """
    async with open_backend(settings) as backend:
        try:
            await backend.object(kind.plural, name)
        except NoSuchObject:
            return
        title = backend.title
    raise InvalidInput(f"a {kind.noun} named {name} exists in {title}: choose another name")


def sentence(text: str) -> str:
    """The text with a capital at its beginning, which a path or URL keeps as it is."""
    return text if "/" in text.split()[0] else f"{text[0].upper()}{text[1:]}"


def logs(ctx: click.Context, noun: str, options: LogsOptions) -> None:
    """Stream the log of a finished object to stdout. Raises PlainError. (docs/spec: CLI 4.5)"""
    settings, (name,) = settings_of(ctx), options.names
    download = downloads(settings, options, options.timeout.total_seconds())

    async def work() -> None:
        async with open_backend(settings) as backend:
            try:
                obj = await backend.object(KINDS[noun].plural, name)
            except Unrecorded as error:
                try:
                    await _print_log(backend, noun, name, download)
                except FileMissing:
                    raise PlainError(f"{error}, but it has no log") from error
                return
            except NoSuchObject as error:
                more = str(error).partition(" not found; ")[2]
                said = f'{noun.capitalize()} "{name}" does not exist.'
                raise PlainError(f"{said} {sentence(more)}" if more else said) from error
            if phase(obj) not in phases.WITH_LOG:
                raise await _unfinished(backend, noun, obj, what="log", plural="Logs")
            with explaining_loss(noun, obj, "log"):
                await _print_log(backend, noun, name, download)

    run_async(work())


async def refuse_unfinished(backend: Backend, backup: JSONObject) -> None:
    """Say that a backup has no contents yet, or never will, instead of asking for them. Raises PlainError."""
    if text(backup, "status", "phase") in phases.WITHOUT_CONTENTS:
        raise await _unfinished(backend, BACKUP.noun, backup, what="contents", plural="The contents")


@contextmanager
def explaining_loss(noun: str, obj: JSONObject, what: str) -> Iterator[None]:
    """Say why a finished object lacks a file, or how to look for what else is lost. Raises CommandError.

    A run that fails early, or whose server dies, stores no files.
    """
    try:
        yield
    except FileMissing as error:
        name = obj["metadata"]["name"]
        why = "; ".join(reasons(obj))
        if not why and noun == BACKUP.noun:
            why = pasteable(f"`backup verify {argument(name)}`") + " says what else is missing"
        said = f"{noun} {name} is {phase(obj)} and has no {what}"
        raise CommandError(f"{said}: {why}" if why else said) from error


async def _unfinished(backend: Backend, noun: str, obj: JSONObject, *, what: str, plural: str) -> PlainError:
    name = obj["metadata"]["name"]
    if phase(obj) == "FailedValidation":
        why = "; ".join(reasons(obj)) or pasteable(f"see `{noun} describe {argument(name)}`")
        return PlainError(f'{noun.capitalize()} "{name}" was refused and has no {what}: {why}')
    reason = await waits_for(backend, obj)
    return PlainError(
        f'{plural} for {noun} "{name}" are not available until it\'s finished processing. '
        f"Please wait until the {noun} has a phase of Completed or Failed and try again."
        + (f" It waits for {reason}." if reason else "")
    )


async def _print_log(backend: Backend, noun: str, name: str, options: DownloadOptions) -> None:
    sink = PrintableBytes(sys.stdout.buffer)
    await fetch(backend, _LOGS[noun], name, options, sink)
    sink.end()
