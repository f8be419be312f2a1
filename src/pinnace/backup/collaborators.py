"""The protocols of the work of a backup beyond saving objects: hooks, pod volumes, snapshots.

The engine decides when each collaborator is called and what follows from its errors. An absent collaborator
is never skipped silently: where a backup asks for its work, the log gets a warning. (docs/spec: BKP 7, 9, 10)
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.archive.runlog import RunLog
from pinnace.hooks.backup_selection import PodHook
from pinnace.plugins.asynchronous import ItemBlockAction
from pinnace.volumes.pods.in_flight import VolumesInFlight
from pinnace.volumes.policies import VolumePolicies


class HookRunner(Protocol):
    """Runs commands in pods."""

    async def run(self, hook: PodHook, pod: JSONObject, log: RunLog) -> None:
        """Run one hook in a container of the pod, its output to the log, with the hook's timeout.

        Raises:
            HookFailed: there is no such container, no command, or the command failed.
        """
        ...


class PodVolumeBackupper(Protocol):
    """Saves the content of pod volumes."""

    @property
    def pod_volume_backups(self) -> Sequence[JSONObject]:
        """The PodVolumeBackup objects that ended, for the file of the backup."""
        ...

    async def request(self, pod: JSONObject, volumes: Sequence[str], log: RunLog) -> VolumesInFlight:
        """Ask the node agent of a running pod to save volumes of it, and do not wait for it."""
        ...


class SnapshotTaker(Protocol):
    """Takes snapshots of persistent volumes."""

    @property
    def snapshots(self) -> Sequence[VolumeSnapshot]:
        """The records of all snapshots tried, for the file of the backup."""
        ...

    async def snapshot(self, volume: JSONObject, log: RunLog) -> Sequence[Exception]:
        """Snapshot a PersistentVolume in the first location that knows it; returns the errors of the item."""
        ...


class CSIObjects(Protocol):
    """Knows the CSI snapshots that the actions of this backup made."""

    async def collect(self, log: RunLog) -> tuple[Sequence[JSONObject], Sequence[JSONObject]]:
        """The VolumeSnapshots and their contents, for the files of the backup; errors go to the log."""
        ...

    def has_snapshot(self, namespace: str, claim: str) -> bool:
        """Whether the volume of a claim has been saved."""
        ...

    @property
    def counts(self) -> tuple[int, int]:
        """How many snapshots were begun, and how many are ready."""
        ...

    @property
    def volume_infos(self) -> Sequence[BackupVolumeInfo]:
        """The records of the volumes that were saved."""
        ...

    async def remove_objects(self) -> list[str]:
        """Called when the backup is stored: remove the snapshots' objects and return the errors."""
        ...

    async def discard(self) -> list[str]:
        """Called when the backup was not stored: delete its snapshots and return the errors."""
        ...


class BackupCollaborators(msgspec.Struct, frozen=True, kw_only=True):
    """The collaborators of this run; None where an installation lacks one.

    Attributes:
        blocks: name items that are backed up together with others.
    """

    hooks: HookRunner | None = None
    pod_volumes: PodVolumeBackupper | None = None
    snapshots: SnapshotTaker | None = None
    csi: CSIObjects | None = None
    blocks: Sequence[ItemBlockAction] = ()
    policies: VolumePolicies | None = None

    @property
    def volumes(self) -> bool:
        """Whether any collaborator saves volumes."""
        return self.pod_volumes is not None or self.snapshots is not None
