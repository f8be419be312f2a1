"""A CSI snapshot as a claim in the server's namespace: a second content names it by its handle.

A claim can be made of a snapshot in its own namespace only, and nothing is to be made in that of the
application. The second content is kept (Retain), so that only the first one decides about the snapshot.
"""

from contextlib import suppress
from typing import Final

from pinnace.api import ALPHA_API_VERSION, labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.csi import snapshots as csi
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.uploads import CONTENT, VOLUME_MODE, VOLUME_SIZE
from pinnace.csi.objects import delete_content
from pinnace.csi.snapshots import DELETE_WITH_OBJECT, SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import APIResource

_FOR: Final = "pinnace.io/data-upload"
"""Label of the second content: the uid of the DataUpload."""


class MovedSnapshots:
    """The snapshots of DataUploads.

    Args:
        namespace: the server's.
    """

    def __init__(self, client: KubeClient, kinds: SnapshotKinds, namespace: str) -> None:
        self._client = client
        self._kinds = kinds
        self._namespace = namespace

    async def claim_spec(self, upload: JSONObject) -> JSONObject | None:
        """The spec of a claim made of the snapshot; None while the snapshot is not ready.

        Raises:
            MovementError: the snapshot is gone.
        """
        name, spec = upload["metadata"]["name"], upload["spec"]
        original = await self._find(self._kinds.contents, text(upload, "metadata", "annotations", CONTENT))
        if original is None:
            raise MovementError("the VolumeSnapshotContent of its snapshot is gone")
        status = mapping(original, "status")
        if not status.get("readyToUse"):
            return None
        await self._ensure(self._kinds.contents, self._content(upload, original), "")
        await self._ensure(self._kinds.snapshots, self._snapshot(upload), self._namespace)
        made = await self._find(self._kinds.snapshots, name, self._namespace)
        if made is None or not mapping(made, "status").get("readyToUse"):
            return None
        group = self._kinds.snapshots.group
        mode = text(upload, "metadata", "annotations", VOLUME_MODE)
        return {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": spec["csiSnapshot"]["storageClass"],
            **({"volumeMode": mode} if mode else {}),
            "resources": {"requests": {"storage": _size(upload, made, status)}},
            "dataSource": {"apiGroup": group, "kind": self._kinds.snapshots.kind, "name": name},
        }

    async def remove(self, upload: JSONObject) -> bool:
        """Delete both snapshots and contents, at last the data; return whether all are gone."""
        name = upload["metadata"]["name"]
        if not await self._remove_snapshot(name, self._namespace):
            return False
        if not await self._remove_content(_content_name(upload)):
            return False
        first = text(upload, "metadata", "annotations", CONTENT)
        content = await self._find(self._kinds.contents, first)
        if content is None:
            return True
        await self._client.patch(self._kinds.contents, first, DELETE_WITH_OBJECT)
        reference = mapping(content, "spec", "volumeSnapshotRef")
        snapshot = await self._find(
            self._kinds.snapshots, text(reference, "name"), text(reference, "namespace")
        )
        # Another snapshot may have taken the name since the namespace was deleted.
        if snapshot is not None and csi.bound_content(snapshot) == first:
            await self._remove_snapshot(text(reference, "name"), text(reference, "namespace"))
        return await self._remove_content(first)

    def _content(self, upload: JSONObject, original: JSONObject) -> JSONObject:
        spec = mapping(original, "spec")
        kept = ("driver", "volumeSnapshotClassName", "sourceVolumeMode")
        return {
            "apiVersion": self._kinds.contents.api_version,
            "kind": self._kinds.contents.kind,
            "metadata": {
                "name": _content_name(upload),
                "labels": {_FOR: upload["metadata"]["uid"], **csi.manager_label(original)},
                "annotations": {
                    key: value
                    for key, value in mapping(original, "metadata", "annotations").items()
                    if key.startswith(labels.CSI_DELETION_SECRET)
                },
            },
            "spec": {
                **{key: spec[key] for key in kept if key in spec},
                "deletionPolicy": "Retain",
                "source": {"snapshotHandle": csi.handle_of(original)},
                "volumeSnapshotRef": {
                    "kind": self._kinds.snapshots.kind,
                    "namespace": self._namespace,
                    "name": upload["metadata"]["name"],
                },
            },
        }

    def _snapshot(self, upload: JSONObject) -> JSONObject:
        metadata = upload["metadata"]
        return {
            "apiVersion": self._kinds.snapshots.api_version,
            "kind": self._kinds.snapshots.kind,
            "metadata": {
                "name": metadata["name"],
                "namespace": self._namespace,
                "labels": {labels.EXCLUDE_FROM_BACKUP: labels.EXCLUDE_FROM_BACKUP_VALUE},
                "ownerReferences": [
                    {
                        "apiVersion": ALPHA_API_VERSION,
                        "kind": upload["kind"],
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": {"source": {"volumeSnapshotContentName": _content_name(upload)}},
        }

    async def _find(self, resource: APIResource, name: str, namespace: str = "") -> JSONObject | None:
        try:
            return await self._client.get(resource, name, namespace or None) if name else None
        except NotFound:
            return None

    async def _ensure(self, resource: APIResource, body: JSONObject, namespace: str) -> None:
        with suppress(AlreadyExists):
            await self._client.create(resource, body, namespace or None)

    async def _remove_snapshot(self, name: str, namespace: str) -> bool:
        found = await self._find(self._kinds.snapshots, name, namespace)
        if found is None:
            return True
        if "deletionTimestamp" not in found["metadata"]:
            with suppress(NotFound):
                await self._client.delete(
                    self._kinds.snapshots, name, namespace, uid=found["metadata"]["uid"]
                )
        return False

    async def _remove_content(self, name: str) -> bool:
        found = await self._find(self._kinds.contents, name)
        if found is None:
            return True
        is_let_go = labels.CSI_BEING_DELETED in csi.annotations_of(found)
        if not is_let_go or "deletionTimestamp" not in found["metadata"]:
            await delete_content(self._client, self._kinds, name)
        return False


def _content_name(upload: JSONObject) -> str:
    return f"pinnace-{upload['metadata']['uid']}"


def _size(upload: JSONObject, snapshot: JSONObject, status_of_content: JSONObject) -> str:
    """The size that the claim requests: that of the snapshot, or of the source where it is not reported.

    Raises:
        MovementError: neither is known, and a volume of another size might not be made.
    """
    for found in (
        mapping(snapshot, "status").get("restoreSize"),
        status_of_content.get("restoreSize"),
        mapping(upload, "metadata", "annotations").get(VOLUME_SIZE),
    ):
        if csi.is_size(found):
            return str(found)
    raise MovementError(
        "its driver does not report the size of the snapshot, and that of its claim is unknown"
    )
