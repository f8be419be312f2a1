"""What `restore get|describe|logs` do. (docs/spec: CLI 5.2, 5.3)"""

import sys
from collections.abc import Sequence
from typing import Any

import click

from pinnace.api import labels
from pinnace.api.download_request import DownloadTargetKind
from pinnace.api.durations import Duration
from pinnace.cli.backend import Backend, DownloadOptions, NotFound, fetch, fetch_json, find, open_backend
from pinnace.cli.backup_read import DESCRIBE_TIMEOUT_SECONDS, check_finished, download_options
from pinnace.cli.connect import run_async, settings_of
from pinnace.cli.describe_restore import RestoreFacts, describe_restore
from pinnace.cli.errors import CommandError, PlainError
from pinnace.cli.output import OutputFlags, encode, object_list, print_objects, printable
from pinnace.cli.tables import restore_table
from pinnace.kube.errors import KubeError

JSONObject = dict[str, Any]


def get(ctx: click.Context, names: Sequence[str], selector: str, output: OutputFlags) -> None:
    """Print the named restores or all of them."""
    settings = settings_of(ctx)

    async def work() -> list[JSONObject]:
        async with open_backend(settings) as backend:
            return await find(names, backend.restore, backend.restores, selector)

    restores = run_async(work())
    if not restores and output.format in ("json", "yaml"):
        click.echo(encode(object_list([], "RestoreList"), output.format))
        return
    print_objects(restores, restore_table(), output)


def describe(
    ctx: click.Context,
    names: Sequence[str],
    *,
    selector: str,
    details: bool,
    insecure_skip_tls_verify: bool,
    cacert: str,
) -> None:
    """Print the descriptions of the named restores or of all."""
    settings = settings_of(ctx)
    options = download_options(settings, DESCRIBE_TIMEOUT_SECONDS, cacert, insecure_skip_tls_verify)

    async def work() -> list[str]:
        async with open_backend(settings) as backend:
            restores = await find(names, backend.restore, backend.restores, selector)
            texts = []
            for restore in restores:
                facts = await _facts(backend, restore, details, options)
                texts.append(describe_restore(restore, facts, colour=settings.colour))
            return texts

    texts = run_async(work())
    if texts:
        click.echo(printable("\n\n\n".join(texts)), color=settings.colour)


async def _facts(
    backend: Backend, restore: JSONObject, details: bool, options: DownloadOptions
) -> RestoreFacts:
    name, status = restore["metadata"]["name"], restore.get("status") or {}
    results: JSONObject | str | None = None
    undecodable = False
    if status.get("warnings") or status.get("errors"):
        try:
            results = await fetch_json(backend, DownloadTargetKind.RESTORE_RESULTS, name, options)
        except CommandError as exc:
            results = str(exc)
        except ValueError as exc:
            results, undecodable = str(exc), True
    try:
        selector = f"{labels.RESTORE_NAME}={labels.label_value(name)}"
        volumes = await backend.related("podvolumerestores", selector)
    except KubeError as exc:
        print(f"error getting PodVolumeRestores for restore {name}: {exc}", file=sys.stderr)
        volumes = []
    return RestoreFacts(
        results=results, undecodable_results=undecodable, pod_volume_restores=volumes, details=details
    )


def logs(
    ctx: click.Context, name: str, *, timeout: Duration, insecure_skip_tls_verify: bool, cacert: str
) -> None:
    """Stream the log of a finished restore to stdout."""
    settings = settings_of(ctx)
    options = download_options(settings, timeout.total_seconds(), cacert, insecure_skip_tls_verify)

    async def work() -> None:
        async with open_backend(settings) as backend:
            try:
                restore = await backend.restore(name)
            except NotFound as exc:
                raise PlainError(f'Restore "{name}" does not exist.') from exc
            check_finished(restore, "restore")
            await fetch(backend, DownloadTargetKind.RESTORE_LOG, name, options, sys.stdout.buffer)

    run_async(work())
