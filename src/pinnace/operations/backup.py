"""A backup put together: its actions, hooks, snapshots and pod volumes. (docs/spec: BKP 7-11)"""

from collections.abc import Callable, Sequence

from pinnace.api.nonadmin.names import Origin
from pinnace.api.resource_policies import ResourcePolicies
from pinnace.api.velero.backup import Backup
from pinnace.backup.collaborators import BackupCollaborators, PodVolumeBackupper
from pinnace.backup.runner import execute_backup
from pinnace.csi.objects import TakenSnapshots
from pinnace.csi.snapshots import FEATURE
from pinnace.hooks.backup_running import PodHookRunner
from pinnace.hooks.limit import hook_limit, limited
from pinnace.operations.snapshots import csi_backup_actions_of, snapshotters_of, taken_snapshots
from pinnace.operations.waiting import cut_backup_short, finalize_backup, wait_for_backup
from pinnace.plugins.asynchronous import AnyBackupItemAction
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.registry import ActionRegistry
from pinnace.runs.context import RunContext
from pinnace.volumes.native.snapshots_backup import NativeSnapshots
from pinnace.volumes.policies import VolumePolicies


class BackupOperation:
    """One backup.

    Args:
        pod_volumes: saves the content of pod volumes; without it a volume that should be saved is an error.
        on_tarball: told the size of the tarball in bytes.
        policies: the resource policies that the Backup names.
    """

    def __init__(
        self,
        context: RunContext,
        *,
        pod_volumes: PodVolumeBackupper | None = None,
        on_tarball: Callable[[int], None] | None = None,
        policies: ResourcePolicies | None = None,
    ) -> None:
        self._context = context
        self._policies = VolumePolicies(context.client, policies)
        self._pod_volumes = pod_volumes
        self._on_tarball = on_tarball

    async def run(self, backup: Backup) -> Backup:
        """Run a prepared Backup and store it; see `execute_backup`."""
        taken = taken_snapshots(self._context, backup)
        csi = csi_backup_actions_of(
            self._context, taken, saves_files=self._pod_volumes is not None, policies=self._policies
        )
        return await execute_backup(
            backup,
            self._context,
            actions=self._actions(csi),
            collaborators=self._collaborators(backup, taken),
            on_tarball=self._on_tarball,
        )

    async def finalize(self, backup: Backup) -> Backup:
        """Finalize a backup whose operations have ended; see `finalize_backup`. Raises StorageError."""
        return await finalize_backup(self._context, backup, actions=self._later_actions())

    async def cut_short(self, backup: Backup) -> None:
        """Store a backup whose operations cannot be followed; see `cut_backup_short`. Raises StorageError."""
        await cut_backup_short(self._context, backup)

    async def wait(self, backup: Backup) -> Backup:
        """Wait for the operations of a backup that was run; see `wait_for_backup`. Raises StorageError."""
        return await wait_for_backup(self._context, backup, actions=self._later_actions())

    def _later_actions(self) -> Sequence[AnyBackupItemAction]:
        """The actions for items that are read again; CSI snapshots are not taken again."""
        return self._actions(())

    def _actions(self, csi: Sequence[AnyBackupItemAction]) -> Sequence[AnyBackupItemAction]:
        context = self._context
        builtin = backup_actions(context.client, context.discovery)
        return ActionRegistry(
            builtin_backup_actions=[*builtin, *csi], backup_actions=context.plugins.backup_actions
        ).backup_actions

    def _collaborators(self, backup: Backup, taken: TakenSnapshots | None) -> BackupCollaborators:
        context = self._context
        limit = hook_limit(backup.metadata.annotations, Origin.BACKUP)
        native = NativeSnapshots(backup, snapshotters_of(context), csi=FEATURE in context.features)
        return BackupCollaborators(
            hooks=PodHookRunner(limited(context.client, limit)),
            pod_volumes=self._pod_volumes,
            snapshots=native if backup.spec.volume_snapshot_locations else None,
            csi=taken,
            blocks=context.plugins.block_actions,
            policies=self._policies,
        )
