"""The CSI snapshot of a stored backup, and the content whose deletion deletes it. (docs/spec: CTL 6.5)"""

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.csi.snapshots import SnapshotKinds


class StoredSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A CSI snapshot that a backup made.

    Attributes:
        handle: its handle in the storage system.
        deletion_secret: namespace and name of the Secret that deleting it needs; None if there is none.
        manager_label: the result of `manager_label` for its content.
    """

    driver: str
    handle: str
    deletion_secret: tuple[str, str] | None = None
    manager_label: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __str__(self) -> str:
        return f"CSI snapshot {self.handle} of {self.driver}"


def content_to_delete(
    kinds: SnapshotKinds, snapshot: StoredSnapshot, backup: str, namespace: str
) -> JSONObject:
    """The content to create for deleting a snapshot that has none in the cluster; pure.

    Its name is derived from the snapshot, so that a repeated deletion creates no second one.
    """
    digest = sha256(f"{snapshot.driver}/{snapshot.handle}".encode()).hexdigest()
    name = f"velero-delete-{digest[:40]}"
    own_labels = {labels.BACKUP_NAME: labels.label_value(backup), **snapshot.manager_label}
    metadata: JSONObject = {"name": name, "labels": own_labels}
    if snapshot.deletion_secret is not None:
        secret_namespace, secret = snapshot.deletion_secret
        metadata["annotations"] = {
            f"{labels.CSI_DELETION_SECRET}-namespace": secret_namespace,
            f"{labels.CSI_DELETION_SECRET}-name": secret,
        }
    return {
        "apiVersion": kinds.contents.api_version,
        "kind": kinds.contents.kind,
        "metadata": metadata,
        "spec": {
            "deletionPolicy": "Delete",
            "driver": snapshot.driver,
            "source": {"snapshotHandle": snapshot.handle},
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": namespace, "name": name},
        },
    }
