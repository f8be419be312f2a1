"""Implements `snapshot-location create|set`. (docs/spec: CLI 7.5)"""

from collections.abc import Mapping

import click

from pinnace.api.codec import encode
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation, VolumeSnapshotLocationSpec
from pinnace.cli.common.get import server_settings
from pinnace.cli.connect import open_cluster, run_async
from pinnace.cli.errors import InvalidInput
from pinnace.cli.kinds import SNAPSHOT_LOCATION
from pinnace.cli.location.backup import credential_of, credential_patch
from pinnace.cli.location.options import SnapshotLocationCreateOptions
from pinnace.cli.output.printing import print_unsent
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
    if not output.sends:
        print_unsent(encode(location, unsent=True), SNAPSHOT_LOCATION.table(), output)
        return

    async def work() -> None:
        async with open_cluster(settings) as client:
            await client.create(RESOURCE, encode(location), settings.namespace)

    with output.naming(SNAPSHOT_LOCATION.kind) as named:
        run_async(work())
        named(name)
        click.echo(f'Snapshot volume location "{name}" configured successfully.')


def change(ctx: click.Context, name: str, credential: Mapping[str, str]) -> None:
    """Set the credential; without one the location stays as it is. (docs/spec: CLI 7.5, BEY 7.4)"""
    settings = server_settings(ctx, "snapshot-location set")
    spec = credential_patch(credential)

    async def work() -> None:
        async with open_cluster(settings) as client:
            await client.patch(RESOURCE, name, {"spec": spec}, settings.namespace)

    run_async(work())
    click.echo(f'Volume snapshot location "{name}" configured successfully.')
