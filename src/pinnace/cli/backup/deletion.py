"""Deleting the data of volumes that a backup has outside of its files, without a server. (docs/adr/021)

what is there ──> what this command cannot delete is told ──> restic snapshots, CSI and native snapshots
                      └── nothing is touched; with --force the rest goes
"""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from pinnace.api.pod_volume import RESTIC
from pinnace.archive.errors import ArchiveError
from pinnace.cli.backend.location import LocationBackend
from pinnace.cli.common.options import DeleteOptions
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import CommandError
from pinnace.cli.local import open_plugins, say
from pinnace.cli.settings import Settings
from pinnace.csi.objects import delete_csi_snapshots
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.csi.stored_data import SavedPodVolume, StoredVolumeData, read_volume_data
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import ConfigError, KubeError
from pinnace.operations.snapshots import open_snapshotters
from pinnace.storage.errors import StorageError
from pinnace.volumes.restic.access import LocationAccess, Repository
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.restic.errors import InvalidSnapshot, ResticError
from pinnace.volumes.restic.identifiers import needs_region, repository_identifier
from pinnace.volumes.restic.passwords import read_password
from pinnace.volumes.restic.regions import find_region
from pinnace.volumes.snapshots_restore import delete_snapshots

_NAMED: Final = 10
_WITH_FORCE: Final = "with --force the rest is deleted, and that is left behind"


async def delete_volume_data(
    settings: Settings, place: LocationBackend, backup: str, options: DeleteOptions
) -> None:
    """Delete the volume data of a backup that is about to be deleted.

    Raises:
        CommandError: some cannot be deleted, and that is not wanted; the files of the backup must stay, as
            they alone tell of it. What was deleted is gone; the same command can be given again.
    """
    try:
        data = await read_volume_data(place.store, backup, None)
    except (StorageError, ArchiveError) as error:
        _report(backup, [f"its records cannot be read: {error}"], options)
        return
    obstacles = [str(each) for each in data.pod_volumes if each.uploader != RESTIC]
    obstacles += [f"moved data of {each}" for each in data.moved]
    if obstacles:
        _report(backup, [f"this version cannot delete {_summary(obstacles)}"], options)
    async with AsyncExitStack() as stack:
        client, no_cluster = None, ""
        try:
            client = await stack.enter_async_context(open_cluster(settings))
        except ConfigError as error:
            no_cluster = str(error)
        problems = await _forget(settings, place, client, data, options)
        if data.csi or data.native:
            if client is None:
                named = [str(each) for each in data.csi]
                named += [f"volume snapshot {each.status.provider_snapshot_id}" for each in data.native]
                problems.append(f"{_summary(named)} can be deleted by way of a cluster only: {no_cluster}")
            else:
                problems += await _delete_snapshots(settings, client, backup, data)
    if problems:
        _report(backup, problems, options)


def _report(backup: str, problems: Sequence[str], options: DeleteOptions) -> None:
    """Raise CommandError, or warn where going on is wanted."""
    if not options.force:
        raise CommandError(
            f"backup {backup} is not deleted, as data of its volumes would be left behind:"
            f" {'; '.join(problems)}; {_WITH_FORCE}"
        )
    for problem in problems:
        say(f"WARNING: data of volumes of backup {backup} is left behind: {problem}", err=True)


def _summary(named: Sequence[str]) -> str:
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{more}"


async def _forget(
    settings: Settings,
    place: LocationBackend,
    client: KubeClient | None,
    data: StoredVolumeData,
    options: DeleteOptions,
) -> list[str]:
    """Forget the restic snapshots; what went wrong. The space comes back with the next prune."""
    wanted = [each for each in data.pod_volumes if each.uploader == RESTIC]
    if not wanted:
        return []
    try:
        password = await _password(settings, client, options)
        region = ""
        if needs_region(place.location):
            region = await find_region(place.location.spec.object_storage.bucket)
    except (ResticError, OSError) as error:
        return [f"{_summary([str(each) for each in wanted])} cannot be forgotten: {error}"]
    problems = []
    with tempfile.TemporaryDirectory(prefix="pinnace-") as workdir:
        restic = Restic(LocationAccess(place.location, password, Path(workdir)))
        for saved in wanted:
            try:
                await _forget_one(restic, place, saved, region)
            except (ResticError, StorageError) as error:
                problems.append(f"{saved} cannot be forgotten: {error}")
    return problems


async def _forget_one(restic: Restic, place: LocationBackend, saved: SavedPodVolume, region: str) -> None:
    # From the location, not from the PodVolumeBackup: that lies in the bucket, and could name any repository.
    identifier = repository_identifier(place.location, saved.namespace, bucket_region=region)
    try:
        await restic.forget(Repository(identifier=identifier, location=""), saved.snapshot)
    except InvalidSnapshot as error:
        say(f"WARNING: {saved} was not there: {error}", err=True)


async def _password(settings: Settings, client: KubeClient | None, options: DeleteOptions) -> bytes:
    """The password of the repositories. Raises ResticError, OSError."""
    environ = os.environ
    if file := options.restic_password_file or environ.get("RESTIC_PASSWORD_FILE", ""):
        return (await asyncio.to_thread(Path(file).read_bytes)).rstrip(b"\r\n")
    if password := environ.get("RESTIC_PASSWORD", ""):
        return password.encode()
    if client is None:
        raise ResticError("the password is not known: give --restic-password-file")
    try:
        return await read_password(client, settings.namespace)
    except (ResticError, KubeError) as error:
        raise ResticError(f"the password is not known: give --restic-password-file ({error})") from error


async def _delete_snapshots(
    settings: Settings, client: KubeClient, backup: str, data: StoredVolumeData
) -> list[str]:
    """Delete CSI and native snapshots by way of the cluster; what went wrong."""
    problems: list[str] = []
    try:
        if data.csi:
            kinds = SnapshotKinds.served(await Discovery.load(client))
            if kinds is None:
                named = _summary([str(each) for each in data.csi])
                problems.append(
                    f"{named} can be deleted by a cluster that serves VolumeSnapshotContents only"
                )
            else:
                problems += await delete_csi_snapshots(
                    client, kinds, data.csi, backup=backup, namespace=settings.namespace
                )
        if data.native:
            async with open_plugins(client, settings, builtin=()) as plugins:
                problems += await delete_snapshots(
                    data.native, open_snapshotters(client, settings.namespace, plugins)
                )
    except KubeError as error:
        problems.append(f"the cluster, by way of which snapshots are deleted, does not answer: {error}")
    return problems
