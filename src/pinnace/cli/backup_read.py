"""What `backup get|describe|logs|download` do. (docs/spec: CLI 4.2, 4.3, 4.5, 4.6)"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pinnace.api import labels
from pinnace.api.download_request import DownloadTargetKind
from pinnace.api.durations import Duration
from pinnace.cli.backend import (
    Backend,
    DownloadOptions,
    FileMissing,
    NotFound,
    fetch,
    fetch_json,
    find,
    open_backend,
)
from pinnace.cli.cells import phase
from pinnace.cli.connect import run_async, settings_of
from pinnace.cli.describe_backup import BackupFacts, describe_backup
from pinnace.cli.errors import CommandError, InvalidInput, PlainError
from pinnace.cli.output import OutputFlags, encode, object_list, print_objects, printable
from pinnace.cli.settings import Settings
from pinnace.cli.tables import backup_table
from pinnace.kube.errors import KubeError

JSONObject = dict[str, Any]

DESCRIBE_TIMEOUT_SECONDS = 30.0
FINISHED = frozenset({"Completed", "PartiallyFailed", "Failed"})


def download_options(
    settings: Settings, timeout_seconds: float, cacert: str, insecure_skip_tls_verify: bool
) -> DownloadOptions:
    """How files are fetched. Raises InvalidInput for flags that `--location` would have to ignore."""
    if settings.location is not None and (cacert or insecure_skip_tls_verify):
        raise InvalidInput(
            "--cacert and --insecure-skip-tls-verify are for downloads by way of a server; with --location "
            "write caCertFile=... or insecureSkipTLSVerify=true into the S3 URL"
        )
    return DownloadOptions(
        timeout_seconds=timeout_seconds,
        ca_cert=cacert or settings.ca_cert,
        insecure=insecure_skip_tls_verify,
    )


def get(ctx: click.Context, names: Sequence[str], selector: str, output: OutputFlags) -> None:
    """Print the named backups or all of them."""
    settings = settings_of(ctx)

    async def work() -> list[JSONObject]:
        async with open_backend(settings) as backend:
            return await find(names, backend.backup, backend.backups, selector)

    backups = run_async(work())
    if not backups and output.format in ("json", "yaml"):
        click.echo(encode(object_list([], "BackupList"), output.format))
        return
    print_objects(backups, backup_table(), output)


def describe(
    ctx: click.Context,
    names: Sequence[str],
    *,
    selector: str,
    details: bool,
    insecure_skip_tls_verify: bool,
    cacert: str,
) -> None:
    """Print the descriptions of the named backups or of all."""
    settings = settings_of(ctx)
    options = download_options(settings, DESCRIBE_TIMEOUT_SECONDS, cacert, insecure_skip_tls_verify)

    async def work() -> list[str]:
        async with open_backend(settings) as backend:
            backups = await find(names, backend.backup, backend.backups, selector)
            texts = []
            for backup in backups:
                facts = await _facts(backend, backup, settings, details, options)
                texts.append(describe_backup(backup, facts, colour=settings.colour))
            return texts

    texts = run_async(work())
    if texts:
        click.echo(printable("\n\n\n".join(texts)), color=settings.colour)


async def _facts(
    backend: Backend, backup: JSONObject, settings: Settings, details: bool, options: DownloadOptions
) -> BackupFacts:
    """Gather what belongs to a backup; what cannot be read is said on stderr and left out."""
    name = backup["metadata"]["name"]
    by_name = f"{labels.BACKUP_NAME}={labels.label_value(name)}"
    by_uid = f"{by_name},{labels.BACKUP_UID}={backup['metadata'].get('uid') or ''}"

    async def related(plural: str, kind: str, selector: str) -> list[JSONObject]:
        try:
            return await backend.related(plural, selector)
        except KubeError as exc:
            print(f"error getting {kind}s for backup {name}: {exc}", file=sys.stderr)
            return []

    return BackupFacts(
        delete_requests=await related("deletebackuprequests", "DeleteBackupRequest", by_uid),
        pod_volume_backups=await related("podvolumebackups", "PodVolumeBackup", by_name),
        resource_list=await _resource_list(backend, name, options) if details else None,
        snapshots=await _snapshots(backend, backup, options) if details else None,
        csi_enabled="EnableCSI" in settings.features,
        details=details,
    )


async def _resource_list(backend: Backend, name: str, options: DownloadOptions) -> JSONObject | str:
    try:
        found = await fetch_json(backend, DownloadTargetKind.BACKUP_RESOURCE_LIST, name, options)
    except FileMissing:
        return "<backup resource list not found>"
    except CommandError as exc:
        return f"<error getting backup resource list: {exc}>"
    except ValueError as exc:
        return f"<error reading backup resource list: {exc}>"
    return found if isinstance(found, dict) else {}


async def _snapshots(
    backend: Backend, backup: JSONObject, options: DownloadOptions
) -> list[JSONObject] | str:
    if not (backup.get("status") or {}).get("volumeSnapshotsAttempted"):
        return []
    name = backup["metadata"]["name"]
    try:
        found = await fetch_json(backend, DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS, name, options)
    except CommandError as exc:
        return f"<error getting snapshot info: {exc}>"
    except ValueError as exc:
        return f"<error reading snapshot info: {exc}>"
    return found if isinstance(found, list) else []


def logs(
    ctx: click.Context, name: str, *, timeout: Duration, insecure_skip_tls_verify: bool, cacert: str
) -> None:
    """Stream the log of a finished backup to stdout."""
    settings = settings_of(ctx)
    options = download_options(settings, timeout.total_seconds(), cacert, insecure_skip_tls_verify)

    async def work() -> None:
        async with open_backend(settings) as backend:
            check_finished(await _existing(backend, name), "backup")
            await fetch(backend, DownloadTargetKind.BACKUP_LOG, name, options, sys.stdout.buffer)

    run_async(work())


async def _existing(backend: Backend, name: str) -> JSONObject:
    try:
        return await backend.backup(name)
    except NotFound as exc:
        raise PlainError(f'Backup "{name}" does not exist.') from exc


def check_finished(obj: JSONObject, what: str) -> None:
    """Refuse logs of work that has not ended. Raises PlainError. (docs/spec: CLI 4.5)"""
    if phase(obj) not in FINISHED:
        raise PlainError(
            f'Logs for {what} "{obj["metadata"]["name"]}" are not available until it\'s finished processing. '
            f"Please wait until the {what} has a phase of Completed or Failed and try again."
        )


def download(
    ctx: click.Context,
    name: str,
    path: str,
    *,
    force: bool,
    timeout: Duration,
    insecure_skip_tls_verify: bool,
    cacert: str,
) -> None:
    """Store the tarball of a backup in a private file; a failed download leaves no file."""
    settings = settings_of(ctx)
    options = download_options(settings, timeout.total_seconds(), cacert, insecure_skip_tls_verify)

    # A link is followed, as opening the file would; what is no file (a device, a folder) is left alone.
    target = Path(path).resolve()
    if target.exists() and not (force and target.is_file()):
        raise CommandError(f"open {path}: {'file exists' if target.is_file() else 'not a regular file'}")

    async def work() -> None:
        async with open_backend(settings) as backend:
            await backend.backup(name)
            await _write_file(backend, name, target, options)

    run_async(work())
    click.echo(f"Backup {name} has been successfully downloaded to {path}")


async def _write_file(backend: Backend, name: str, path: Path, options: DownloadOptions) -> None:
    # Written beside the target and renamed, so that --force never destroys a good file for a broken download.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            await fetch(backend, DownloadTargetKind.BACKUP_CONTENTS, name, options, file)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as exc:
        raise CommandError(f"open {path}: {exc.strerror}") from exc
    finally:
        part.unlink(missing_ok=True)
