"""Backups made by the command itself, without a server: the same engine, a location by URL."""

from collections.abc import Sequence
from contextlib import closing

import msgspec

from pinnace.api.backup import Backup
from pinnace.api.codec import DecodeError, decode
from pinnace.api.snapshot_location import VolumeSnapshotLocation
from pinnace.api.values.times import utcnow
from pinnace.backup.request import ServerDefaults, SnapshotLocations, Unreadable, prepare_backup
from pinnace.cli.backend.location import LocationBackend
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import InvalidInput
from pinnace.cli.local import EXIT_CODES, discover, open_plugins, say, say_outcome
from pinnace.cli.names import check_metadata
from pinnace.cli.output.progress import ProgressView
from pinnace.cli.settings import Settings
from pinnace.context import RunContext
from pinnace.csi.snapshots import CSIError
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.kube.unserved import unserved_names
from pinnace.operations.backup import BackupOperation
from pinnace.operations.workdir import work_directory
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.registry import ActionRegistry
from pinnace.storage.errors import BackupExists, InvalidLocation
from pinnace.volumes.snapshotters import LOCATIONS


async def make_backup(settings: Settings, backup: Backup) -> int:
    """Make a backup and say how it went. Returns the exit code."""
    check_metadata(backup.metadata)
    assert settings.location is not None
    async with (
        LocationBackend.open(settings.location, namespace=settings.namespace, create=True) as place,
        open_cluster(settings) as client,
    ):
        await _check_location(place)
        discovery = await discover(client, settings)
        prepared = _prepare(backup, place, discovery, await _snapshot_locations(client, settings, backup))
        if await place.store.exists(prepared.metadata.name):
            raise InvalidInput(f"{BackupExists(prepared.metadata.name)}; choose another name or delete it")
        ids = ActionRegistry(builtin_backup_actions=backup_actions(client, discovery)).ids
        say(f"Backing up to {place.title} as {prepared.metadata.name}.")
        async with (
            open_plugins(client, settings, builtin=ids) as plugins,
            work_directory(None) as workdir,
        ):
            view = ProgressView("backup")
            context = RunContext(
                client=client,
                discovery=discovery,
                store=place.store,
                plugins=plugins,
                workdir=workdir,
                namespace=settings.namespace,
                features=settings.features,
                progress=view.publish,
            )
            try:
                with closing(view):
                    finished = await BackupOperation(context).run(prepared)
            except CSIError as error:
                raise InvalidInput(str(error)) from error
    progress = finished.status.progress
    say_outcome("Backup", finished, progress.items_backed_up if progress else 0, "logs")
    return EXIT_CODES[finished.status.phase]


async def _check_location(place: LocationBackend) -> None:
    """Refuse to write among foreign files. Raises InvalidInput."""
    try:
        await place.store.validate()
    except InvalidLocation as error:
        raise InvalidInput(f"{place.title}: {error}; name an empty folder or prefix") from error


def _prepare(
    backup: Backup, place: LocationBackend, discovery: Discovery, locations: SnapshotLocations
) -> Backup:
    """Fill in and validate, as a server would. Raises InvalidInput with all problems."""
    now = utcnow()
    backup = msgspec.structs.replace(
        backup, metadata=msgspec.structs.replace(backup.metadata, creation_timestamp=now)
    )
    assert discovery.server_version is not None
    prepared = prepare_backup(
        backup,
        defaults=ServerDefaults(),
        storage_locations=[place.location],
        snapshot_locations=locations,
        server_version=discovery.server_version,
        now=now,
    )
    problems = list(prepared.status.validation_errors)
    # Asked first what was misspelt, the user loses nothing; a server cannot ask. (docs/spec: ADR 023)
    unserved = unserved_names(backup.spec.included_resources, discovery)
    problems += [name.text for name in unserved if not name.is_pattern]
    if problems:
        raise InvalidInput("the backup is not valid:\n  " + "\n  ".join(problems))
    return prepared


async def _snapshot_locations(
    client: KubeClient, settings: Settings, backup: Backup
) -> Sequence[VolumeSnapshotLocation] | Unreadable:
    """The snapshot locations of the cluster, if the backup asks for native snapshots. (docs/spec: BKP 10)

    Otherwise none: their plugins need not be on this machine.
    """
    if not backup.spec.volume_snapshot_locations and backup.spec.snapshot_volumes is not True:
        return []
    try:
        listed = await client.list_all(LOCATIONS, settings.namespace)
        return [decode(VolumeSnapshotLocation, obj) for obj in listed]
    except (KubeError, DecodeError) as error:
        return Unreadable(str(error))
