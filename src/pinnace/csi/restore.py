"""The actions that restore claims from CSI snapshots. (docs/spec: RST 8, SRV 18.2)

    VolumeSnapshot ──> a new content that names the snapshot by its handle, and the VolumeSnapshot bound to it
    claim          ──> provisioned from that VolumeSnapshot

They have the names of the actions of Velero's CSI plugin, and improve on it: mapped namespaces work, the
user's annotations are kept, and contents are never created as they are in the backup: the cluster would
delete the snapshot of a content that names the uid of a missing VolumeSnapshot.
"""

from collections.abc import Container, Iterable, Mapping

from pinnace.api import labels
from pinnace.api.kinds import SECRETS
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.csi import snapshots as csi
from pinnace.csi.snapshots import CSIError, SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, APIResource
from pinnace.plugins.logs import get_logger
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemAction,
    RestoreItemInput,
    RestoreItemOutput,
)
from pinnace.volumes.creating import create_generated

log = get_logger(__name__)


def csi_restore_actions(
    client: KubeClient, discovery: Discovery, *, recorded: Container[str] | None = None
) -> list[RestoreItemAction]:
    """The four actions.

    Args:
        recorded: the handles of the snapshots that may be bound; None for any.

    Raises:
        CSIError: the cluster has no such kinds.
    """
    kinds = SnapshotKinds.needed(discovery)
    return [
        ProvisionClaim(client, kinds),
        BindSnapshot(client, kinds, recorded),
        RestoreClass(kinds),
        LeaveContent(),
    ]


class ProvisionClaim:
    """Changes a claim so that it is provisioned from its snapshot instead of bound to its old volume."""

    name = "velero.io/csi-pvc-restorer"

    def __init__(self, client: KubeClient, kinds: SnapshotKinds) -> None:
        self._client = client
        self._kinds = kinds

    async def applies_to(self) -> ResourceSelector:
        """PersistentVolumeClaims."""
        return ResourceSelector(included_resources=(PERSISTENT_VOLUME_CLAIMS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Point the claim at the VolumeSnapshot that was restored before it.

        A claim that exists already needs none: snapshots become new volumes only.

        Raises:
            CSIError: there is no such VolumeSnapshot and no such claim, or a size is not valid.
        """
        snapshot_name = csi.snapshot_of_claim(given.item, given.restore.spec.backup_name)
        if not snapshot_name:
            return RestoreItemOutput(item=given.item)
        if given.restore.spec.restore_pvs is False:
            log.info(
                "The claim is not restored from its snapshot: the restore leaves volumes out",
                extra={
                    "namespace": target_namespace(given),
                    "persistentVolumeClaim": given.item["metadata"]["name"],
                },
            )
            return RestoreItemOutput(item=given.item)
        namespace = target_namespace(given)
        try:
            snapshot = await self._client.get(self._kinds.snapshots, snapshot_name, namespace)
        except KubeError as error:
            name = given.item["metadata"]["name"]
            if await _found(self._client, PERSISTENT_VOLUME_CLAIMS, namespace, name):
                return RestoreItemOutput(item=given.item)
            raise CSIError(
                f"the VolumeSnapshot {namespace}/{snapshot_name}, which the claim is to be restored from,"
                f" cannot be read: {error}"
            ) from error
        csi.provision_from(given.item, snapshot, size_of_volume=csi.size_of_claim(given.item_from_backup))
        return RestoreItemOutput(item=given.item)


class BindSnapshot:
    """Binds a VolumeSnapshot to the storage system's snapshot that the backup made."""

    name = "velero.io/csi-volumesnapshot-restorer"

    def __init__(
        self, client: KubeClient, kinds: SnapshotKinds, recorded: Container[str] | None = None
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._recorded = recorded

    async def applies_to(self) -> ResourceSelector:
        """VolumeSnapshots."""
        return ResourceSelector(included_resources=(csi.SNAPSHOTS,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Create the content and let the VolumeSnapshot name it, unless the VolumeSnapshot exists.

        Raises:
            CSIError, KubeError: the backup does not say which snapshot it is, or the content was refused.
        """
        item, restore = served(given.item, self._kinds), given.restore
        namespace, name = target_namespace(given), item["metadata"]["name"]
        fields = {"namespace": namespace, "volumeSnapshot": name}
        if restore.spec.restore_pvs is False:
            return RestoreItemOutput(item=item, skip=True)
        maker = csi.labels_of(item).get(labels.BACKUP_NAME)
        if maker and not csi.is_of_backup(item, restore.spec.backup_name):
            log.info("VolumeSnapshot is not restored: another backup made it", extra={**fields, "by": maker})
            return RestoreItemOutput(item=item, skip=True)
        is_resumed = labels.RESUMED in restore.metadata.annotations
        own = {  # of the backup too: then the content is deleted with it, even after its namespace
            labels.BACKUP_NAME: labels.label_value(restore.spec.backup_name),
            labels.RESTORE_NAME: labels.label_value(restore.metadata.name),
        }
        found = await _found(self._client, self._kinds.snapshots, namespace, name)
        if is_resumed and found is not None and own.items() <= csi.labels_of(found).items():
            return RestoreItemOutput(item=item)  # created before the interruption, with its content
        if found is not None:
            log.info("VolumeSnapshot exists and is left alone", extra=fields)
            return RestoreItemOutput(item=item, skip=True)
        body = csi.static_content(self._kinds, item, namespace, {**own, **_noted_manager(item)})
        if self._recorded is not None and csi.handle_of(body) not in self._recorded:
            raise CSIError(
                f"VolumeSnapshot {namespace}/{name} names a snapshot that the backup has no record of:"
                " the author of the VolumeSnapshot can have written any name"
            )
        content = await self._made_before(body, own) if is_resumed else None
        if content is None:
            content = await create_generated(self._client, self._kinds.contents, body, "")
        item.setdefault("spec", {})["source"] = {"volumeSnapshotContentName": content["metadata"]["name"]}
        return RestoreItemOutput(item=item)

    async def _made_before(self, body: JSONObject, own: Mapping[str, str]) -> JSONObject | None:
        """The content that the restore created before it was interrupted. Raises KubeError."""
        selector = ",".join(f"{name}={value}" for name, value in own.items())
        listed = await self._client.list_all(self._kinds.contents, label_selector=selector)
        wanted = body["spec"]["volumeSnapshotRef"]
        return next(
            (
                each
                for each in listed
                if mapping(each, "spec", "volumeSnapshotRef").items() >= wanted.items()
                and mapping(each, "spec", "source") == body["spec"]["source"]
                and text(each, "metadata", "deletionTimestamp") == ""
            ),
            None,
        )


async def _found(client: KubeClient, resource: APIResource, namespace: str, name: str) -> JSONObject | None:
    """An object; None if it does not exist, or cannot be read. (docs/spec: SRV 18.2)"""
    try:
        return await client.get(resource, name, namespace)
    except KubeError:
        return None


def note_manager(snapshot: JSONObject, content: JSONObject | None) -> None:
    """Note on a stored VolumeSnapshot, in place, which node's csi-snapshotter looks after its content.

    Args:
        content: as the backup has it; what a user wrote into the VolumeSnapshot itself does not count.
    """
    annotations = {**csi.annotations_of(snapshot)}
    noted = annotations.pop(labels.CSI_MANAGED_BY, None)
    manager = csi.manager_label(content or {})
    if manager or noted is not None:
        snapshot["metadata"]["annotations"] = {**annotations, **manager}


def _noted_manager(item: JSONObject) -> dict[str, str]:
    """The label that `note_manager` noted; the note is removed from the item."""
    annotations = dict(csi.annotations_of(item))
    node = annotations.pop(labels.CSI_MANAGED_BY, "")
    item["metadata"]["annotations"] = annotations
    return {labels.CSI_MANAGED_BY: node} if node else {}


class RestoreClass:
    """Restores a VolumeSnapshotClass, and before it the Secret that its annotations name."""

    name = "velero.io/csi-volumesnapshotclass-restorer"

    def __init__(self, kinds: SnapshotKinds) -> None:
        self._kinds = kinds

    async def applies_to(self) -> ResourceSelector:
        """VolumeSnapshotClasses."""
        return ResourceSelector(included_resources=(csi.CLASSES,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Leave the class as it is."""
        secret = csi.secret_named_by(given.item, labels.CSI_LIST_SECRET)
        return RestoreItemOutput(
            item=served(given.item, self._kinds), additional_items=_secrets([secret] if secret else [])
        )


class LeaveContent:
    """Leaves contents out: a restore creates those it needs with their VolumeSnapshots."""

    name = "velero.io/csi-volumesnapshotcontent-restorer"

    async def applies_to(self) -> ResourceSelector:
        """VolumeSnapshotContents."""
        return ResourceSelector(included_resources=(csi.CONTENTS,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Skip it."""
        return RestoreItemOutput(item=given.item, skip=True)


def target_namespace(given: RestoreItemInput) -> str:
    """The target namespace of the item: actions get it with its namespace in the backup."""
    namespace: str = given.item["metadata"].get("namespace") or ""
    return given.restore.spec.namespace_mapping.get(namespace, namespace)


def served(item: JSONObject, kinds: SnapshotKinds) -> JSONObject:
    """The item in the version that the cluster serves; the kept fields are the same in all versions.

    (docs/spec: SRV 18.1)
    """
    return {**item, "apiVersion": kinds.snapshots.api_version}


def _secrets(found: Iterable[tuple[str, str]]) -> list[ResourceIdentifier]:
    return [
        ResourceIdentifier(group="", resource=SECRETS.group_resource, namespace=namespace, name=name)
        for namespace, name in found
    ]
