"""The backup's side of moved data: creates DataUploads of CSI snapshots, follows and cancels them.

(docs/spec: BEY 6.7)
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from pinnace.api import ALPHA_API_VERSION, API_VERSION, labels
from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.data_movement import BUILT_IN_MOVERS, written_mover
from pinnace.csi import snapshots as csi
from pinnace.csi.backup import SnapshotClaim
from pinnace.csi.movement.errors import AgentsNotReady
from pinnace.csi.movement.following import Movements
from pinnace.csi.movement.objects import BLOCK, FINALIZER, is_built_in
from pinnace.csi.objects import TakenSnapshots
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import DATA_UPLOADS
from pinnace.plugins.asynchronous import BackupItemOutput, OperationProgress
from pinnace.plugins.protocols import ResourceIdentifier, ResourceSelector
from pinnace.volumes.creating import create_generated
from pinnace.volumes.node_agents import NodeAgents
from pinnace.volumes.pods.parents import parent_of

CONTENT: Final = "pinnace.io/snapshot-content"
"""Annotation of a DataUpload: the VolumeSnapshotContent of the snapshot, which survives its namespace."""
VOLUME_MODE: Final = "pinnace.io/volume-mode"
"""Annotation of a DataUpload of a claim in Block mode: that mode."""
VOLUME_SIZE: Final = "pinnace.io/volume-size"
"""Annotation of a DataUpload: the size of the claim's volume; drivers need not report that of a snapshot."""
SOURCE: Final = "pinnace.io/source-volume"
"""Annotation of a DataUpload: name and node affinity of the volume, as JSON; the volume may be deleted since.
"""
NO_SUCH: Final = "its DataUpload was deleted before the data was moved"


class SourceVolume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The volume that was snapshotted.

    Attributes:
        node_terms: of the required node affinity; a node must fit one of them. Empty if any node does.
    """

    name: str = ""
    node_terms: Sequence[JSONObject] = ()

    @classmethod
    def of(cls, volume: JSONObject) -> "SourceVolume":
        """The properties of a PersistentVolume."""
        terms = objects(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms")
        return cls(name=text(volume, "metadata", "name"), node_terms=terms)

    @classmethod
    def noted_on(cls, upload: JSONObject) -> "SourceVolume":
        """The volume of a DataUpload; an empty one for those of earlier versions."""
        noted = text(upload, "metadata", "annotations", SOURCE)
        try:
            return msgspec.json.decode(noted, type=cls) if noted else cls()
        except (msgspec.DecodeError, msgspec.ValidationError):
            return cls()

    def encoded(self) -> str:
        """As it is noted on a DataUpload."""
        return msgspec.json.encode(self).decode()


class FollowUploads(msgspec.Struct, frozen=True):
    """Reads the progress of DataUploads, and cancels them.

    Args:
        namespace: the server's.
    """

    client: KubeClient
    namespace: str

    @property
    def name(self) -> str:
        """The name of the action that begins them."""
        return SnapshotClaim.name

    async def applies_to(self) -> ResourceSelector:
        """PersistentVolumeClaims."""
        return ResourceSelector(included_resources=(PERSISTENT_VOLUME_CLAIMS.group_resource,))

    async def execute(self, item: JSONObject, backup: Backup) -> BackupItemOutput:
        """Leave the item as it is: this action only follows operations."""
        return BackupItemOutput(item=item)

    async def progress(self, operation: str, backup: Backup) -> OperationProgress:
        """The progress of the DataUpload. It ends when everything made for it is removed."""
        return await self._movements.progress(operation, backup.metadata.uid)

    async def cancel(self, operation: str, backup: Backup) -> None:
        """Give the work up."""
        await self._movements.cancel(operation, backup.metadata.uid)

    @property
    def _movements(self) -> Movements:
        return Movements(
            client=self.client,
            namespace=self.namespace,
            resource=DATA_UPLOADS,
            owner_label=labels.BACKUP_UID,
            gone=NO_SUCH,
        )


class MoveClaim:
    """Takes a CSI snapshot of a claim's volume, and has its data moved into the location.

    Args:
        snapshots: decides and takes the snapshot.
        taken: records it.
        following: of the DataUploads.
        agents: move the data, unless the backup names another mover.
    """

    name = SnapshotClaim.name

    def __init__(
        self,
        client: KubeClient,
        snapshots: SnapshotClaim,
        taken: TakenSnapshots,
        following: FollowUploads,
        agents: NodeAgents,
    ) -> None:
        self._client = client
        self._agents = agents
        self._snapshots = snapshots
        self._taken = taken
        self._following = following

    async def applies_to(self) -> ResourceSelector:
        """PersistentVolumeClaims."""
        return await self._snapshots.applies_to()

    async def execute(self, item: JSONObject, backup: Backup) -> BackupItemOutput:
        """Take the snapshot and begin to move its data; nothing for claims that need no snapshot.

        Raises:
            AgentsNotReady: no snapshot was taken, as nothing would move its data.
            CSIError, KubeError: the snapshot could not be taken, or no DataUpload be created.
        """
        mapping(item, "metadata", "annotations").pop(labels.DATA_UPLOAD_NAME, None)  # of an earlier backup
        if not backup.spec.snapshot_move_data:
            changed, more = await self._snapshots.execute(item, backup)
            return BackupItemOutput(item=changed, additional_items=more)
        needing = await self._snapshots.volume_of_claim(item, backup)
        if needing is None:
            csi.forget_snapshot(item)
            return BackupItemOutput(item=item)
        if backup.spec.datamover in BUILT_IN_MOVERS:
            await self._check_agents()
        snapshot = await self._snapshots.take(item, needing, backup)
        found, content = await self._taken.wait_and_keep(snapshot)
        volume = self._taken.volume_of(found["metadata"]["namespace"], found["metadata"]["name"])
        body = new_upload(backup, item, found, content, volume)
        try:
            made = await create_generated(self._client, DATA_UPLOADS, body, self._following.namespace)
        except KubeError:
            await self._taken.drop(found["metadata"]["namespace"], found["metadata"]["name"])
            raise
        operation = operation_id(backup.metadata.uid, item["metadata"]["uid"])
        self._taken.moved(found["metadata"]["namespace"], found["metadata"]["name"], operation)
        csi.annotate_claim(item, found["metadata"]["name"], backup.metadata.name)
        name = f"{self._following.namespace}/{made['metadata']['name']}"
        item["metadata"]["annotations"][labels.DATA_UPLOAD_NAME] = name
        upload = ResourceIdentifier(
            group=DATA_UPLOADS.group,
            resource=DATA_UPLOADS.name,
            namespace=self._following.namespace,
            name=made["metadata"]["name"],
        )
        return BackupItemOutput(item=item, operation_id=operation, post_operation_items=[upload])

    async def _check_agents(self) -> None:
        """Raises AgentsNotReady, KubeError. (docs/spec/after-1.18.md, 4.3)"""
        if (why := await self._agents.why_none()) is not None:
            raise AgentsNotReady(why.saying(f"node-agent is not ready for snapshot data movement: {why}"))

    async def progress(self, operation: str, backup: Backup) -> OperationProgress:
        """The progress of the DataUpload."""
        return await self._following.progress(operation, backup)

    async def cancel(self, operation: str, backup: Backup) -> None:
        """Give the work up."""
        await self._following.cancel(operation, backup)


def operation_id(backup_uid: str, claim_uid: str) -> str:
    """The id of the operation that moves the data of a claim."""
    return f"du-{backup_uid}.{claim_uid}"


def new_upload(
    backup: Backup, claim: JSONObject, snapshot: JSONObject, content: JSONObject, volume: JSONObject
) -> JSONObject:
    """The DataUpload of a snapshot of a volume: pure; its name is generated."""
    owner, source = backup.metadata, claim["metadata"]
    timeout = backup.spec.csi_snapshot_timeout
    config = backup.spec.uploader_config
    parallel = config.parallel_files_upload if config is not None else 0
    return {
        "apiVersion": ALPHA_API_VERSION,
        "kind": DATA_UPLOADS.kind,
        "metadata": {
            "generateName": f"{owner.name}-",
            "namespace": owner.namespace,
            "labels": {
                labels.BACKUP_NAME: labels.label_value(owner.name),
                labels.BACKUP_UID: owner.uid,
                labels.PVC_UID: source["uid"],
                labels.ASYNC_OPERATION_ID: labels.label_value(operation_id(owner.uid, source["uid"])),
            },
            "annotations": {
                CONTENT: content["metadata"]["name"],
                **({VOLUME_MODE: BLOCK} if text(claim, "spec", "volumeMode") == BLOCK else {}),
                **({VOLUME_SIZE: size} if (size := csi.size_of_claim(claim)) else {}),
                SOURCE: SourceVolume.of(volume).encoded(),
            },
            # From the start: the snapshot exists already, and must not outlive the object.
            **({"finalizers": [FINALIZER]} if backup.spec.datamover in BUILT_IN_MOVERS else {}),
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": "Backup",
                    "name": owner.name,
                    "uid": owner.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "snapshotType": "CSI",
            "csiSnapshot": {
                "volumeSnapshot": snapshot["metadata"]["name"],
                "storageClass": text(claim, "spec", "storageClassName"),
                "snapshotClass": text(snapshot, "spec", "volumeSnapshotClassName"),
                "driver": text(content, "spec", "driver"),
            },
            "sourcePVC": source["name"],
            "sourceNamespace": source["namespace"],
            "datamover": written_mover(backup.spec.datamover),
            "backupStorageLocation": backup.spec.storage_location,
            "operationTimeout": str(timeout) if timeout is not None else "10m0s",
            **({"dataMoverConfig": {"ParallelFilesUpload": str(parallel)}} if parallel else {}),
            **parent_of(backup),
        },
        "status": {"progress": {}},
    }


def is_for_us(obj: JSONObject) -> bool:
    """Whether this server made the DataUpload, so that its snapshot has to be removed with it."""
    return is_built_in(obj) and CONTENT in mapping(obj, "metadata", "annotations")
