"""Backups made by the command itself, without a server: the same engine, a location by URL."""

from collections.abc import Callable

import msgspec

from pinnace.api.backup import Backup, BackupProgress
from pinnace.api.values.times import utcnow
from pinnace.archive.runlog import RunLog
from pinnace.backup.collaborators import Collaborators
from pinnace.backup.request import ServerDefaults, SnapshotLocations, prepare_backup
from pinnace.backup.runner import execute_backup
from pinnace.cli.backend.location import LocationBackend
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import InvalidInput
from pinnace.cli.names import check_metadata
from pinnace.cli.output.progress import ProgressView
from pinnace.cli.settings import Settings
from pinnace.cli.standalone import EXIT_CODES, discover, say, say_outcome
from pinnace.cli.standalone_plugins import open_plugins
from pinnace.cli.standalone_snapshots import (
    csi_actions_for_backup,
    snapshot_locations,
    snapshotters,
    taken_snapshots,
)
from pinnace.csi.snapshots import FEATURE
from pinnace.hooks.backup_running import PodHookRunner
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.unserved import unserved_names
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.registry import ActionRegistry
from pinnace.server.workdir import work_directory
from pinnace.storage.errors import BackupExists, InvalidLocation
from pinnace.volumes.snapshots_backup import NativeSnapshots


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
        prepared = _prepare(backup, place, discovery, await snapshot_locations(client, settings, backup))
        if await place.store.exists(prepared.metadata.name):
            raise InvalidInput(f"{BackupExists(prepared.metadata.name)}; choose another name or delete it")
        builtin = backup_actions(client, discovery)
        ids = ActionRegistry(builtin_backup_actions=builtin).ids
        async with open_plugins(client, settings, builtin=ids) as plugins:
            taken = taken_snapshots(client, settings, discovery, prepared)
            csi = csi_actions_for_backup(client, discovery, plugins, taken)
            registry = ActionRegistry(
                builtin_backup_actions=[*builtin, *csi], backup_actions=plugins.backup_actions
            )
            collaborators = Collaborators(
                hooks=PodHookRunner(client),
                # Only where there is something for them to do: volumes in their order cost time.
                snapshots=NativeSnapshots(
                    prepared, snapshotters(client, settings, plugins), csi=FEATURE in settings.features
                )
                if prepared.spec.volume_snapshot_locations
                else None,
                csi=taken,
            )
            finished = await _run_backup(
                prepared, place, client, discovery, registry, collaborators, plugins.log_to
            )
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


async def _run_backup(
    backup: Backup,
    place: LocationBackend,
    client: KubeClient,
    discovery: Discovery,
    registry: ActionRegistry,
    collaborators: Collaborators,
    on_log: Callable[[RunLog], None],
) -> Backup:
    say(f"Backing up to {place.title} as {backup.metadata.name}.")
    view = ProgressView("backup")

    async def show(progress: BackupProgress) -> None:
        view.update(progress.items_backed_up, progress.total_items)

    async with work_directory(None) as workdir:
        try:
            return await execute_backup(
                backup,
                place.store,
                client=client,
                discovery=discovery,
                actions=registry.backup_actions,
                workdir=workdir,
                collaborators=collaborators,
                progress=show,
                on_log=on_log,
            )
        finally:
            view.close()
