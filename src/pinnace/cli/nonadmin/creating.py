"""The work of `nonadmin backup|restore|storage-location create`."""

from collections.abc import Callable, Mapping

import click

from pinnace.api.codec import encode
from pinnace.api.labels import IDENTITY_SECRET
from pinnace.api.meta import LabelSelector, ObjectMeta
from pinnace.api.objects import JSONObject, text
from pinnace.api.selection.label_choice import label_choice_errors
from pinnace.api.selection.resource_filters import filter_errors
from pinnace.api.values.shell_words import argument
from pinnace.api.velero.storage_location import (
    BackupStorageLocationSpec,
    ObjectStorageLocation,
    SecretKeySelector,
)
from pinnace.cli.build import backup_spec, check_metadata, check_not_negative
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.common.content_options import ObjectFilterOptions
from pinnace.cli.common.known_fields import warn_of_lost_fields, with_known_fields
from pinnace.cli.common.named_objects import check_identity_secret
from pinnace.cli.connect import caller, pasteable, run_async
from pinnace.cli.errors import InvalidInput
from pinnace.cli.nonadmin.create_backup import TenantBackupOptions
from pinnace.cli.nonadmin.create_location import TenantLocationOptions
from pinnace.cli.nonadmin.create_restore import TenantRestoreOptions
from pinnace.cli.nonadmin.kinds import KINDS, Home, open_home
from pinnace.cli.nonadmin.options import RequestOptions
from pinnace.cli.output.printing import print_unsent
from pinnace.cli.restore.build import chosen_objects, restore_spec
from pinnace.client.server import ServerBackend
from pinnace.kube.errors import KubeError
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS


def backup(ctx: click.Context, options: TenantBackupOptions) -> None:
    """Print or submit a request for a backup."""
    check_not_negative("--ttl", options.ttl)
    spec = backup_spec(options)
    if problems := [*filter_errors(spec), *label_choice_errors(*_selectors(options), "backup")]:
        raise InvalidInput("\n".join(problems))
    given = encode(spec)
    # Left out rather than zero: an administrator's default replaces an absent value.
    given.pop("ttl", None)
    if options.ttl is not None:
        given["ttl"] = str(options.ttl)
    given.pop("hooks", None)
    _submit(ctx, "backup", given, options)


def restore(ctx: click.Context, options: TenantRestoreOptions) -> None:
    """Print or submit a request for a restore."""
    if not options.from_backup:
        raise InvalidInput("--from-backup is required: the name of a backup in this namespace")
    spec = restore_spec(options)
    if problems := label_choice_errors(*_selectors(options), "restore"):
        raise InvalidInput("\n".join(problems))
    given = encode(spec)
    given.pop("hooks", None)

    def annotations_in(namespace: str) -> Mapping[str, str]:
        named = {IDENTITY_SECRET: options.identity_secret} if options.identity_secret else {}
        return {**chosen_objects(options, namespace), **named}

    _submit(ctx, "restore", given, options, annotations_in, source=options.from_backup)


def location(ctx: click.Context, options: TenantLocationOptions) -> None:
    """Print or submit a request for a storage location."""
    if not options.bucket:
        raise InvalidInput("--bucket is required")
    check_not_negative("--backup-sync-period", options.backup_sync_period)
    if len(options.credential) != 1:
        raise InvalidInput("--credential is required: secret=key, a Secret of this namespace and a key in it")
    ((secret, key),) = options.credential.items()
    spec = BackupStorageLocationSpec(
        provider=options.provider,
        config=dict(options.config),
        credential=SecretKeySelector(name=secret, key=key),
        object_storage=ObjectStorageLocation(bucket=options.bucket, prefix=options.prefix),
        backup_sync_period=options.backup_sync_period,
    )
    _submit(ctx, "storage-location", encode(spec), options)


def _selectors(
    options: ObjectFilterOptions,
) -> tuple[LabelSelector | None, list[LabelSelector]]:
    return options.selector, list(options.or_selector)


def _submit(
    ctx: click.Context,
    noun: str,
    spec: JSONObject,
    options: RequestOptions,
    annotations_in: Callable[[str], Mapping[str, str]] = lambda _namespace: {},
    source: str = "",
) -> None:
    """Print or send a request; its annotations may depend on its namespace.

    Args:
        source: the name of the tenant's backup that it needs; empty for none.
    """
    output, (name,), kind = options.printed(), options.names, KINDS[noun]

    async def work() -> None:
        async with open_home(ctx) as home:
            check_metadata(ObjectMeta(name=name, namespace=home.namespace, labels=dict(options.labels)))
            metadata: JSONObject = {"name": name, "namespace": home.namespace}
            if options.labels:
                metadata["labels"] = options.labels
            if annotations := annotations_in(home.namespace):
                metadata["annotations"] = annotations
            body = {
                "apiVersion": kind.resource.api_version,
                "kind": kind.resource.kind,
                "metadata": metadata,
                "spec": {kind.spec: spec},
            }
            if not output.sends:
                print_unsent(body, kind.table(), output)
                return
            say_cluster(home.client, "Sending the request to")
            await _check_source(home, source)
            secret = text(metadata, "annotations", IDENTITY_SECRET)
            await check_identity_secret(home.client, home.namespace, secret)
            sent = await with_known_fields(home.client, kind.resource, body)
            warn_of_lost_fields(sent, await home.client.create(kind.resource, sent, home.namespace))
            click.echo(f'Request "{name}" submitted in namespace {home.namespace}.')
            look = pasteable(f"`nonadmin {noun} describe {argument(name)}`")
            click.echo(f"Run {look} to see whether it was accepted.")
            named(name)

    with output.naming(kind.resource.kind, kind.resource.group) as named:
        run_async(work())


async def _check_source(home: Home, name: str) -> None:
    """Check that the backup exists: with a misspelt name the request would wait. Raises NoSuchObject."""
    if not name:
        return
    try:
        await ServerBackend(home.client, home.namespace, caller()).named(NON_ADMIN_BACKUPS, name)
    except KubeError:
        return  # only an early answer depends on it
