"""A restore put together: its actions, hooks, snapshots and pod volumes. (docs/spec: RST 12, 15-21)"""

from collections.abc import Sequence

import msgspec

from pinnace.api.nonadmin.names import Origin
from pinnace.api.velero.restore import Restore
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.csi.snapshots import FEATURE, handle_of
from pinnace.hooks.limit import hook_limit
from pinnace.hooks.restore_running import PodExecHooks
from pinnace.operations.snapshots import csi_restore_actions_of, snapshotters_of
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.plugins.registry import ActionRegistry
from pinnace.restore.collaborators import MovedDataRestorer, PodVolumeRestorer, RestoreCollaborators
from pinnace.restore.errors import RestoreFailed
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.runner import PodVolumeSource, RestoreInputs, execute_restore
from pinnace.runs.context import RunContext
from pinnace.storage.errors import StorageError
from pinnace.volumes.native.snapshots_restore import SnapshotVolumes


class RestoreOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One restore.

    Attributes:
        saved_pod_volumes: asked for those of the backup; may raise KubeError, StorageError or
            DecodeError.
        pod_volumes: restores the content of pod volumes; without it such a volume is an error.
        moved_data: restores data that was moved into the location; without it such data is an error.
    """

    context: RunContext
    saved_pod_volumes: PodVolumeSource
    options: RestoreSettings = msgspec.field(default_factory=RestoreSettings)
    pod_volumes: PodVolumeRestorer | None = None
    moved_data: MovedDataRestorer | None = None

    async def run(self, request: RestoreRequest) -> Restore:
        """Restore and keep log and results in the store; see `execute_restore`."""

        async def actions(saved: SavedPodVolumes) -> Sequence[RestoreItemAction]:
            return await self._actions(restore, saved)

        context, restore = self.context, request.restore
        limit = hook_limit(restore.metadata.annotations, Origin.RESTORE)
        hooks = PodExecHooks.of(context.client, limit, request.journal)
        inputs = RestoreInputs(
            actions=actions,
            pod_volumes=self.saved_pod_volumes,
            options=self.options,
            collaborators=RestoreCollaborators(
                volume_restorer=SnapshotVolumes(snapshotters_of(context)),
                pod_volume_restorer=self.pod_volumes,
                exec_hooks=hooks,
                moved_data=self.moved_data,
            ),
        )
        finished = await execute_restore(request, context, inputs)
        finished.status.hook_status = hooks.counts.status()
        return finished

    async def _actions(self, restore: Restore, saved: SavedPodVolumes) -> Sequence[RestoreItemAction]:
        """All actions, in their order. Raises RestoreFailed."""
        context = self.context
        builtin = restore_actions(
            context.client,
            context.discovery,
            context.namespace,
            pod_volumes=saved if self.pod_volumes is not None else None,
        )
        try:
            csi = csi_restore_actions_of(context, recorded=await self._recorded_handles(restore))
        except StorageError as error:
            raise RestoreFailed(str(error)) from error
        return ActionRegistry(
            builtin_restore_actions=[*builtin, *csi], restore_actions=context.plugins.restore_actions
        ).restore_actions

    async def _recorded_handles(self, restore: Restore) -> frozenset[str] | None:
        """The snapshots that a tenant's restore may bind: those that the server noted in the backup.

        What a tenant's own VolumeSnapshot says of itself is the tenant's word. (docs/spec: NAC 17 A35)
        """
        if Origin.RESTORE.namespace_annotation not in restore.metadata.annotations:
            return None
        if FEATURE not in self.context.features:
            return frozenset()
        contents = await self.context.store.read_csi_volume_snapshot_contents(restore.spec.backup_name)
        return frozenset(map(handle_of, contents))
