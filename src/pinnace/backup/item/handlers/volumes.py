"""Persistent volumes and their native snapshots. (docs/spec: BKP 10, BEY 4.7)"""

from collections.abc import Sequence

from pinnace.api.kinds import PERSISTENT_VOLUMES
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.resource_policies import VolumeAction
from pinnace.backup.errors import ItemFailed
from pinnace.backup.item.handlers.handler import BackupHandler
from pinnace.kube.errors import KubeError
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice


class VolumeBackupHandler(BackupHandler):
    """Takes a snapshot of a volume, unless the backup or its claim says otherwise."""

    async def prepared(self, item: JSONObject) -> None:
        """Take the snapshot."""
        try:
            reason = await self._reason_against_snapshot(item)
        except KubeError as error:
            raise ItemFailed([error]) from error
        self.visit.run.volumes.seen(item, reason)
        if not reason and (errors := await self._snapshot(item)):
            raise ItemFailed(errors)

    async def _snapshot(self, volume: JSONObject) -> Sequence[BaseException]:
        run = self.visit.run
        if not run.backup.spec.volume_snapshot_locations:
            return ()
        name = text(volume, "metadata", "name")
        log = run.log.child(resource=PERSISTENT_VOLUMES.group_resource, namespace="", name=name)
        if run.collaborators.snapshots is None:
            message = "No snapshot of this volume is taken: no volume snapshotter is set up"
            log.warning(Notice(Code.SNAPSHOT_NOT_TAKEN, message))
            return ()
        return await run.collaborators.snapshots.snapshot(volume, log)

    async def _reason_against_snapshot(self, volume: JSONObject) -> str:
        """Why no snapshot is wanted; empty if one is. Raises KubeError. (BEY 4.7)"""
        run, claim = self.visit.run, mapping(volume, "spec", "claimRef")
        policies = run.collaborators.policies
        rule = await policies.of_persistent(volume) if policies is not None else None
        if rule is not None:
            return "" if rule.action is VolumeAction.SNAPSHOT else f"any: {rule.reason}"
        if run.backup.spec.snapshot_volumes is False:
            return "volumeSnapshot: the backup has snapshotVolumes: false"
        if run.claims.has(text(claim, "namespace"), text(claim, "name")):
            return "podvolume: the volume was to be saved from its pod"
        return ""
