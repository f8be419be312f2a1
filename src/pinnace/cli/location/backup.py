"""Implements `backup-location create` and `set`. (docs/spec: CLI 7.1, 7.3)"""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath

import click

from pinnace.aio.small_files import read_small_file
from pinnace.api.codec import encode
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationPhase,
    BackupStorageLocationSpec,
    ObjectStorageLocation,
    SecretKeySelector,
)
from pinnace.cli.build import check_metadata, check_not_negative
from pinnace.cli.common.get import server_settings
from pinnace.cli.connect import caller, command_line, open_cluster, run_async
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP_LOCATION
from pinnace.cli.location.backup_create import BackupLocationCreateOptions
from pinnace.cli.location.backup_set import BackupLocationSetOptions
from pinnace.cli.output.printing import print_unsent
from pinnace.cli.settings import Settings
from pinnace.client.lease import telling_of_absence
from pinnace.client.server import ServerBackend
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import velero

VALIDATION_SECONDS = 60.0
POLL_SECONDS = 0.25
RESOURCE = velero(BACKUP_LOCATION.plural)


def create(ctx: click.Context, options: BackupLocationCreateOptions) -> None:
    """Print or submit the location."""
    output, (name,) = options.printed(), options.names
    settings = server_settings(ctx, "backup-location create")
    _check(options)
    location = requested_location(name, settings.namespace, options)
    check_metadata(location.metadata)
    if not output.sends:
        print_unsent(encode(location, unsent=True), BACKUP_LOCATION.table(), output)
        return
    with output.naming(BACKUP_LOCATION.kind) as named:
        run_async(_submit(settings, location))
        named(name)
        _configured(name)
    if options.validate:
        run_async(_validated(settings, name))
    else:
        complain(f"`{command_line(settings, _GET, 'get', name)}` shows whether the server can use it.")


_GET = BACKUP_LOCATION.noun


async def _validated(settings: Settings, name: str) -> None:
    """Wait until the server has checked the location. Raises CommandError if it is unusable."""
    status: JSONObject = {}
    async with (
        open_cluster(settings) as client,
        telling_of_absence(client, settings.namespace, "the check", complain),
    ):
        try:
            async with asyncio.timeout(VALIDATION_SECONDS):
                while True:
                    location = await client.get(RESOURCE, name, settings.namespace)
                    status = location.get("status") or {}
                    if status.get("phase"):
                        break
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise CommandError(
                f'backup storage location "{name}" was created, but no server has checked it within '
                f"{VALIDATION_SECONDS:g} seconds: is one running in namespace {settings.namespace}?"
            ) from None
    if status["phase"] != BackupStorageLocationPhase.AVAILABLE:
        raise CommandError(
            f'backup storage location "{name}" was created, but is {status["phase"]}: '
            f"{status.get('message') or 'the log of the server says why'}"
        )
    complain(f'Backup storage location "{name}" is Available.')


def _configured(name: str) -> None:
    click.echo(f'Backup storage location "{name}" configured successfully.')


def _check(options: BackupLocationCreateOptions) -> None:
    """Refuse options that describe no valid location, in the order of the spec. Raises InvalidInput."""
    if not options.provider:
        raise InvalidInput("--provider is required")
    from pinnace.storage.providers import FILESYSTEM

    if options.provider in FILESYSTEM:
        path = PurePosixPath(options.config.get("path", ""))
        if not path.is_absolute() or len(path.parts) < 2:
            raise InvalidInput("--config path=/absolute/folder is required with --provider filesystem")
    elif not options.bucket:
        raise InvalidInput("--bucket is required")
    period = options.backup_sync_period
    if period is not None and period < Duration():
        raise InvalidInput("--backup-sync-period must be non-negative")
    check_not_negative("--validation-frequency", options.validation_frequency)
    credential_of(options.credential)


def credential_of(pairs: Mapping[str, str]) -> SecretKeySelector | None:
    """The credential that `--credential` names; None without one. Raises InvalidInput for several."""
    if len(pairs) > 1:
        raise InvalidInput("--credential can only contain 1 key/value pair")
    for secret, key in pairs.items():
        return SecretKeySelector(name=secret, key=key)
    return None


def credential_patch(pairs: Mapping[str, str]) -> JSONObject:
    """The patch of a spec that sets the credential; empty without one. Raises InvalidInput for several."""
    selector = credential_of(pairs)
    if selector is None:
        return {}
    # `optional` belongs to the reference that is replaced.
    return {"credential": {"name": selector.name, "key": selector.key, "optional": None}}


def requested_location(
    name: str, namespace: str, options: BackupLocationCreateOptions
) -> BackupStorageLocation:
    """The location that the options describe. Raises InvalidInput."""
    from pinnace.storage.providers import location_of

    provider, bucket, config = location_of(options.provider, options.bucket, options.config)
    spec = BackupStorageLocationSpec(
        provider=provider,
        config=config,
        # Without --credential there is none: an empty one would make the location unusable (CLI 7.1).
        credential=credential_of(options.credential),
        object_storage=ObjectStorageLocation(
            bucket=bucket, prefix=options.prefix, ca_cert=_content(options.cacert)
        ),
        default=options.default,
        access_mode=options.access_mode,
        backup_sync_period=options.backup_sync_period,
        validation_frequency=options.validation_frequency,
    )
    metadata = ObjectMeta(name=name, namespace=namespace, labels=dict(options.labels))
    return BackupStorageLocation(metadata=metadata, spec=spec)


def _content(path: str) -> bytes:
    try:
        return read_small_file(Path(path)) if path else b""
    except OSError as error:
        raise InvalidInput(f"couldn't open cacert {path}: {error.strerror}") from error


async def _submit(settings: Settings, location: BackupStorageLocation) -> None:
    async with open_cluster(settings) as client:
        if not location.spec.default:
            await client.create(RESOURCE, encode(location), settings.namespace)
            return
        async with _others_not_default(client, settings.namespace, location.metadata.name):
            await client.create(RESOURCE, encode(location), settings.namespace)


@asynccontextmanager
async def _others_not_default(client: KubeClient, namespace: str, name: str) -> AsyncIterator[None]:
    """Unset `spec.default` of all other locations; it is set again if the work inside fails."""
    others = [
        obj["metadata"]["name"]
        for obj in await client.list_all(RESOURCE, namespace)
        if (obj.get("spec") or {}).get("default") and obj["metadata"]["name"] != name
    ]
    changed = []
    try:
        for other in others:
            await client.patch(RESOURCE, other, {"spec": {"default": False}}, namespace)
            changed.append(other)
        yield
    except KubeError:
        # Otherwise a name that is taken would leave the cluster without a default location.
        for other in changed:
            await client.patch(RESOURCE, other, {"spec": {"default": True}}, namespace)
        raise


def change(ctx: click.Context, options: BackupLocationSetOptions) -> None:
    """Change the given settings and no others. (docs/spec: CLI 7.3)"""
    (name,) = options.names
    settings = server_settings(ctx, "backup-location set")
    spec = credential_patch(options.credential)
    if options.cacert:
        spec["objectStorage"] = {
            "caCert": base64.b64encode(_content(options.cacert)).decode(),
            "caCertRef": None,  # a location with both is not valid
        }
    if options.default is not None:
        spec["default"] = options.default
    run_async(_change(settings, name, spec))
    _configured(name)


async def _change(settings: Settings, name: str, spec: JSONObject) -> None:
    async with open_cluster(settings) as client:
        # Read first: a wrong name must not unset the default of the others.
        await ServerBackend(client, settings.namespace, caller()).object(RESOURCE.name, name)
        if spec.get("default"):
            async with _others_not_default(client, settings.namespace, name):
                await client.patch(RESOURCE, name, {"spec": spec}, settings.namespace)
        elif spec:
            await client.patch(RESOURCE, name, {"spec": spec}, settings.namespace)
