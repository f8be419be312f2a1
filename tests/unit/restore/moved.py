"""A claim whose data was moved: the records of its backup, and a restore that fills it."""

from typing import Any, cast

import orjson

from pinnace.api.objects import JSONObject
from pinnace.csi.movement.downloads import RestoreMovedData
from pinnace.kube.client import KubeClient
from pinnace.restore.collaborators import RestoreCollaborators
from tests.unit.restore.world import Harness, obj

OPERATION: dict[str, Any] = {
    "spec": {
        "backupItemAction": "velero.io/csi-pvc-backupper",
        "operationID": "du-1.2",
        "resourceIdentifier": {
            "Group": "",
            "Resource": "persistentvolumeclaims",
            "Namespace": "ns-1",
            "Name": "data",
        },
    }
}
UPLOAD: dict[str, Any] = {"kind": "DataUpload", "spec": {"sourcePVC": "data", "sourceNamespace": "ns-1"}}


def moving(upload: str) -> JSONObject:
    """The operation that moved the data of the claim by this DataUpload."""
    namespace, name = upload.split("/")
    made = {"Group": "velero.io", "Resource": "datauploads", "Namespace": namespace, "Name": name}
    return {"spec": {**OPERATION["spec"], "postOperationItems": [made]}}


def stored_uploads(*uploads: str, **spec: str) -> dict[str, bytes]:
    """The files of DataUploads in the tarball."""
    found = {}
    for each in uploads:
        namespace, name = each.split("/")
        body = {
            "apiVersion": "velero.io/v2alpha1",
            "kind": "DataUpload",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**UPLOAD["spec"], **spec},
            "status": {"phase": "Completed", "snapshotID": "k1"},
        }
        found[f"resources/datauploads.velero.io/namespaces/{namespace}/{name}.json"] = orjson.dumps(body)
    return found


def moving_into(harness: Harness, fields: JSONObject) -> None:
    """Let node agents of a server fill the volumes of claims."""
    harness.request_fields = fields
    harness.world.put(obj("Namespace", "velero"))
    harness.collaborators = RestoreCollaborators(
        moved_data=RestoreMovedData(cast(KubeClient, harness.world), "velero")
    )
