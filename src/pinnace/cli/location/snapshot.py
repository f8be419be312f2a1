"""Implements `snapshot-location create|set`. (docs/spec: CLI 7.5)"""

import click

from pinnace.api.codec import encode
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import text
from pinnace.api.values.shell_words import argument
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation, VolumeSnapshotLocationSpec
from pinnace.cli.build import check_metadata
from pinnace.cli.common.get import server_settings
from pinnace.cli.connect import open_cluster, run_async
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.kinds import SNAPSHOT_LOCATION
from pinnace.cli.location.backup import credential_of, credential_patch
from pinnace.cli.location.snapshot_create import SnapshotLocationCreateOptions
from pinnace.cli.location.snapshot_set import SnapshotLocationSetOptions
from pinnace.cli.output.printing import print_unsent
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import velero

RESOURCE = velero(SNAPSHOT_LOCATION.plural)


def create(ctx: click.Context, options: SnapshotLocationCreateOptions) -> None:
    """Print or submit the location."""
    output, (name,) = options.printed(), options.names
    settings = server_settings(ctx, "snapshot-location create")
    if not options.provider:
        raise InvalidInput("--provider is required")
    credential = credential_of(options.credential)
    location = VolumeSnapshotLocation(
        metadata=ObjectMeta(name=name, namespace=settings.namespace, labels=dict(options.labels)),
        spec=VolumeSnapshotLocationSpec(
            provider=options.provider, config=dict(options.config), credential=credential
        ),
    )
    check_metadata(location.metadata)
    if not output.sends:
        print_unsent(encode(location, unsent=True), SNAPSHOT_LOCATION.table(), output)
        return

    async def work() -> list[str]:
        async with open_cluster(settings) as client:
            await client.create(RESOURCE, encode(location), settings.namespace)
            return await _of_provider(client, settings.namespace, options.provider)

    with output.naming(SNAPSHOT_LOCATION.kind) as named:
        alike = run_async(work())
        named(name)
        click.echo(f'Snapshot volume location "{name}" configured successfully.')
    # Here and in `backup`: the other commands of locations need none of what opens stores.
    from pinnace.storage.providers import lacks_region

    if lacks_region(options.provider, options.config):
        complain(
            "WARNING: it has no region, so backups with persistent volumes will be PartiallyFailed. "
            f"Delete it (`kubectl -n {settings.namespace} delete {RESOURCE.group_resource}"
            f" {argument(name)}`), and create it again with --config region=REGION."
        )
    if len(alike) > 1:
        complain(
            f"WARNING: provider {options.provider} has {len(alike)} snapshot locations now: "
            f"{', '.join(alike)}. Backups, those of schedules too, must choose one with "
            "--volume-snapshot-locations. Others are refused, unless the server has a default (its flag "
            "--default-volume-snapshot-locations)."
        )


async def _of_provider(client: KubeClient, namespace: str, provider: str) -> list[str]:
    """The names of all locations of a provider; empty if they cannot be read."""
    try:
        found = await client.list_all(RESOURCE, namespace)
    except KubeError:
        return []  # only a warning depends on it
    return sorted(
        text(each, "metadata", "name") for each in found if text(each, "spec", "provider") == provider
    )


def change(ctx: click.Context, options: SnapshotLocationSetOptions) -> None:
    """Set the credential; without one the location stays as it is. (docs/spec: CLI 7.5, BEY 7.4)"""
    settings, (name,) = server_settings(ctx, "snapshot-location set"), options.names
    spec = credential_patch(options.credential)

    async def work() -> None:
        async with open_cluster(settings) as client:
            await client.patch(RESOURCE, name, {"spec": spec}, settings.namespace)

    run_async(work())
    click.echo(f'Volume snapshot location "{name}" configured successfully.')
