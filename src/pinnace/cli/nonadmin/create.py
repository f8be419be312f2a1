"""What `nonadmin backup|restore|storage-location create` do."""

from collections.abc import Mapping
from typing import Any

import click

from pinnace.api.backup import BackupSpec
from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject
from pinnace.api.restore import RestoreSpec
from pinnace.api.storage_location import BackupStorageLocationSpec, ObjectStorageLocation, SecretKeySelector
from pinnace.cli.connect import program_name, run_async
from pinnace.cli.errors import InvalidInput
from pinnace.cli.nonadmin.kinds import KINDS, open_home
from pinnace.cli.output.printing import OutputFlags, print_objects


def backup(ctx: click.Context, name: str, output: OutputFlags, flags: Mapping[str, Any]) -> None:
    """Print or submit a request for a backup."""
    spec = BackupSpec(
        included_resources=flags["include_resources"] or [],
        excluded_resources=flags["exclude_resources"] or [],
        label_selector=flags["selector"],
        snapshot_volumes=flags["snapshot_volumes"],
        storage_location=flags["storage_location"],
        default_volumes_to_restic=flags["default_volumes_to_restic"],
    )
    given = encode(spec)
    # Left out rather than zero: an administrator's value takes the place of what is absent.
    given.pop("ttl", None)
    if flags["ttl"] is not None:
        given["ttl"] = str(flags["ttl"])
    given.pop("hooks", None)
    _submit(ctx, "backup", name, given, output, flags)


def restore(ctx: click.Context, name: str, output: OutputFlags, flags: Mapping[str, Any]) -> None:
    """Print or submit a request for a restore."""
    if not flags["from_backup"]:
        raise InvalidInput("--from-backup is required: the name of a backup in this namespace")
    spec = RestoreSpec(
        backup_name=flags["from_backup"],
        included_resources=flags["include_resources"] or [],
        excluded_resources=flags["exclude_resources"] or [],
        label_selector=flags["selector"],
        restore_pvs=flags["restore_volumes"],
        preserve_node_ports=flags["preserve_nodeports"],
    )
    given = encode(spec)
    given.pop("hooks", None)
    _submit(ctx, "restore", name, given, output, flags)


def location(ctx: click.Context, name: str, output: OutputFlags, flags: Mapping[str, Any]) -> None:
    """Print or submit a request for a storage location."""
    if not flags["bucket"]:
        raise InvalidInput("--bucket is required")
    if len(flags["credential"]) != 1:
        raise InvalidInput("--credential is required: secret=key, a Secret of this namespace and a key in it")
    ((secret, key),) = flags["credential"].items()
    spec = BackupStorageLocationSpec(
        provider=flags["provider"],
        config=flags["config"],
        credential=SecretKeySelector(name=secret, key=key),
        object_storage=ObjectStorageLocation(bucket=flags["bucket"], prefix=flags["prefix"]),
        backup_sync_period=flags["backup_sync_period"],
    )
    _submit(ctx, "storage-location", name, encode(spec), output, flags)


def _submit(
    ctx: click.Context,
    noun: str,
    name: str,
    spec: JSONObject,
    output: OutputFlags,
    flags: Mapping[str, Any],
) -> None:
    kind = KINDS[noun]

    async def work() -> None:
        async with open_home(ctx) as home:
            metadata = {"name": name, "namespace": home.namespace}
            if flags["labels"]:
                metadata["labels"] = flags["labels"]
            body = {
                "apiVersion": kind.resource.api_version,
                "kind": kind.resource.kind,
                "metadata": metadata,
                "spec": {kind.spec: spec},
            }
            if output.format:
                print_objects([body], kind.table(), output)
                return
            await home.client.create(kind.resource, body, home.namespace)
            program = program_name()
            click.echo(f'Request "{name}" submitted in namespace {home.namespace}.')
            click.echo(f"Run `{program} nonadmin {noun} describe {name}` to see whether it was accepted.")

    run_async(work())
