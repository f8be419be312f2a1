"""The volume data of a backup that `backup delete` deletes without a server. (docs/adr/021)

Obstacles come first: nothing is touched while some of the data would be left behind, unless --force is given.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from pinnace.api.labels import HIDDEN_DETAILS
from pinnace.api.phases import BackupPhase
from pinnace.archive.errors import ArchiveError
from pinnace.catalogue.reading import read_deletable
from pinnace.catalogue.volumes import Place, SavedVolume
from pinnace.cli.common.options import DeleteOptions
from pinnace.cli.common.outcome import say
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.settings import Settings
from pinnace.client.location import LocationBackend
from pinnace.csi.objects import delete_objects
from pinnace.csi.snapshots import FEATURE, SnapshotKinds, backup_selector
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import ConfigError, KubeError
from pinnace.operations.deletion import DeleteOperation, Snapshots, VolumeData, summary
from pinnace.operations.local import InvalidRun, LocalRun
from pinnace.operations.local_deletion import LocationRepositories, find_password
from pinnace.storage.errors import StorageError

_NO_ANSWER: Final = "the cluster does not answer, and snapshots are deleted through it"
_WITH_FORCE: Final = "--force deletes the backup and leaves that data behind"


async def delete_volume_data(
    settings: Settings, location: LocationBackend, backup: str, options: DeleteOptions
) -> None:
    """Delete the volume data of a backup that is about to be deleted.

    Raises:
        CommandError: some of the data cannot be deleted, and --force is not given. The files of the backup
            must stay, as only they record the data. Repeating the command is harmless.
    """
    try:
        volumes = await read_deletable(await location.store.located(backup), backup, None)
    except (StorageError, ArchiveError) as error:
        _report(backup, [f"its records cannot be read: {error}"], options)
        return
    snapshots = [each for each in volumes if each.place in (Place.STORAGE_SYSTEM, Place.CLOUD)]
    obstacles: list[str] = []
    async with AsyncExitStack() as stack:
        client = None
        try:
            client = await stack.enter_async_context(open_cluster(settings))
        except ConfigError as error:
            if snapshots:
                obstacles.append(f"{summary(snapshots)} can be deleted only through a cluster: {error}")
        password = partial(find_password, options.restic_password_file, client, settings.namespace)
        parts: list[VolumeData] = [
            LocationRepositories(location.location, location.store, volumes, password=password, warn=_warn)
        ]
        undeletable = await DeleteOperation(*parts).obstacles()
        try:
            if client is not None and snapshots:
                run = _local_run(settings, location, client)
                opened = await stack.enter_async_context(_opened_snapshots(run, backup, snapshots))
                parts.append(opened)
                undeletable += await opened.obstacles()
        except KubeError as error:
            obstacles.append(f"{_NO_ANSWER}: {error}")
        if client is not None and not snapshots and await _may_have_left_some(location, backup):
            parts.append(_LeftSnapshots(client, backup))
        if undeletable:
            obstacles.append(f"this version cannot delete {summary(undeletable)}")
        if obstacles:
            _report(backup, obstacles, options)
        try:
            problems = await DeleteOperation(*parts).delete()
        except KubeError as error:
            problems = [f"{_NO_ANSWER}: {error}"]
    if problems:
        _report(backup, problems, options)


class _LeftSnapshots:
    """The VolumeSnapshots of a backup whose files name none: they were not made in time, or its run ended.

    Nothing but their label names them. What cannot be looked for is a warning: most backups have left none.
    """

    def __init__(self, client: KubeClient, backup: str) -> None:
        self._client = client
        self._backup = backup

    async def obstacles(self) -> list[str]:
        return []

    async def delete(self) -> list[str]:
        try:
            kinds = SnapshotKinds.served(await Discovery.load(self._client))
            return [] if kinds is None else (await delete_objects(self._client, kinds, self._backup))[0]
        except KubeError as error:
            selector = backup_selector(self._backup)
            _warn(
                "the cluster could not be asked for VolumeSnapshots that an unfinished run of the backup may"
                f" have left: {error}; they are found by `kubectl get volumesnapshots -A -l {selector}`"
            )
            return []


async def _may_have_left_some(location: LocationBackend, backup: str) -> bool:
    """Whether snapshots of a backup may be in the cluster though its files name none."""
    try:
        stored = await location.store.read_backup(backup)
    except StorageError:
        return True  # without a readable record the backup has not ended well
    if HIDDEN_DETAILS in stored.metadata.annotations:
        return True  # the count is hidden
    return stored.status.phase != BackupPhase.COMPLETED or stored.status.csi_volume_snapshots_attempted > 0


def _local_run(settings: Settings, location: LocationBackend, client: KubeClient) -> LocalRun:
    return LocalRun(
        client=client,
        location=location.location,
        store=location.store,
        namespace=settings.namespace,
        kubeconfig=settings.kubeconfig or "",
        # The feature decides what a backup takes; a snapshot that was taken is deleted without it.
        features=settings.features | {FEATURE},
    )


@asynccontextmanager
async def _opened_snapshots(
    run: LocalRun, backup: str, volumes: Sequence[SavedVolume]
) -> AsyncIterator[Snapshots]:
    """The snapshots of the backup, with the plugins of this run. Raises KubeError, InvalidInput."""
    has_csi = any(each.place == Place.STORAGE_SYSTEM for each in volumes)
    discovery = await Discovery.load(run.client) if has_csi else Discovery(())
    try:
        async with run.open(discovery, builtin=()) as context:
            yield Snapshots(context, backup, known=volumes)
    except InvalidRun as error:
        raise InvalidInput(str(error)) from error


def _warn(text: str) -> None:
    say(f"WARNING: {text}", err=True)


def _report(backup: str, problems: Sequence[str], options: DeleteOptions) -> None:
    """Raise CommandError; with --force print a warning for each problem."""
    if not options.force:
        raise CommandError(
            f"backup {backup} is not deleted, as data of its volumes would be left behind:"
            f" {'; '.join(problems)}; {_WITH_FORCE}"
        )
    for problem in problems:
        _warn(f"data of volumes of backup {backup} is left behind: {problem}")
