"""Objects as another cluster left them in a location."""

from typing import Any

from pinnace.api import labels
from pinnace.api.objects import JSONObject


def stored_backup(name: str = "b1", **status: Any) -> JSONObject:
    """As another cluster wrote it."""
    return {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {
            "name": name,
            "namespace": "ns-2",
            "uid": "uid-elsewhere",
            "resourceVersion": "123",
            "generation": 7,
            "creationTimestamp": "2021-08-01T00:00:00Z",
            "labels": {"a": "b", labels.STORAGE_LOCATION: "foo"},
            "annotations": {"c": "d"},
            "finalizers": ["example.com/never"],
            "managedFields": [{"manager": "velero"}],
        },
        "spec": {"storageLocation": "foo", "ttl": "720h0m0s", "includedNamespaces": ["x"], "newField": [1]},
        "status": {
            "phase": "Completed",
            "startTimestamp": "2021-08-01T00:00:00Z",
            "completionTimestamp": "2021-08-01T00:01:00Z",
            "newField": {"kept": True},
            **status,
        },
    }


def stored_volume(name: str = "v1", **changes: Any) -> JSONObject:
    return {
        "kind": "PodVolumeBackup",
        "apiVersion": "velero.io/v1",
        "metadata": {
            "name": name,
            "namespace": "ns-2",
            "uid": "uid-volume",
            "resourceVersion": "9",
            "labels": {labels.BACKUP_NAME: "victim", labels.BACKUP_UID: "uid-victim", labels.PVC_UID: "p"},
            "annotations": {labels.PVC_NAME: "claim"},
            "ownerReferences": [
                {"apiVersion": "velero.io/v1", "kind": "Backup", "name": "victim", "uid": "uid-victim"}
            ],
        },
        "spec": {
            "node": "n",
            "pod": {"kind": "Pod", "namespace": "x", "name": "p"},
            "volume": "data",
            "backupStorageLocation": "foo",
            "repoIdentifier": "s3:x/restic/x",
        },
        "status": {"phase": "Completed", "snapshotID": "abc", "path": "/host_pods"},
        **changes,
    }
