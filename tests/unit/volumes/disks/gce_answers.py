"""What Google's compute service answers: version 1 of its REST API, as recorded in public.

Names, shapes and status codes are those of the recorded exchanges in GoogleCloudPlatform/k8s-config-connector
(`computesnapshot/_http.log`, `computedisk/*/_http.log`): an operation for whatever changes something,
`RUNNING` and later `DONE`; numbers as text; errors with a `reason`. An operation that fails has `error`
beside its status, as in the discovery document of the API (`compute:v1`, schema `Operation`).
"""

from typing import Any

from pinnace.api.objects import JSONObject

GOOGLE = "https://www.googleapis.com/compute/v1"
TIME = "2024-04-01T12:34:56.123-07:00"


def _where(place: str) -> JSONObject:
    """The field that names a zone or region; global resources have none."""
    kind = place.split("/")[2].removesuffix("s")
    return {kind: f"{GOOGLE}/{place}"} if kind in ("zone", "region") else {}


def operation(place: str, status: str = "RUNNING", *, kind: str = "insert", name: str = "op1") -> JSONObject:
    """An operation in a place such as `projects/shop/global`."""
    times = {"endTime": TIME} if status == "DONE" else {}
    return {
        "kind": "compute#operation",
        "id": "8765432109876543210",
        "name": name,
        "operationType": kind,
        "targetLink": f"{GOOGLE}/{place}/snapshots/s1",
        "targetId": "1234567890123456789",
        "status": status,
        "user": "velero@shop.iam.gserviceaccount.com",
        "progress": 100 if status == "DONE" else 0,
        "insertTime": TIME,
        "startTime": TIME,
        **times,
        "selfLink": f"{GOOGLE}/{place}/operations/{name}",
        **_where(place),
    }


def failed(place: str, code: str, message: str) -> JSONObject:
    """An operation that failed."""
    return {
        **operation(place, "DONE"),
        "httpErrorStatusCode": 403,
        "httpErrorMessage": "FORBIDDEN",
        "error": {"errors": [{"code": code, "message": message}]},
    }


def refusal(status: int, reason: str, message: str) -> JSONObject:
    """The body of an error status."""
    return {
        "error": {
            "code": status,
            "message": message,
            "errors": [{"message": message, "domain": "global", "reason": reason}],
        }
    }


def disk(where: str, name: str, *, kind: str = "pd-ssd", status: str = "READY", **more: Any) -> JSONObject:
    """A disk in a zone or region such as `projects/shop/zones/europe-west1-b`."""
    return {
        "kind": "compute#disk",
        "id": "1234567890123456789",
        "creationTimestamp": TIME,
        "name": name,
        "sizeGb": "500",
        **_where(where),
        "status": status,
        "selfLink": f"{GOOGLE}/{where}/disks/{name}",
        "type": f"{GOOGLE}/{where}/diskTypes/{kind}",
        "labelFingerprint": "42WmSpB8rSM=",
        "physicalBlockSizeBytes": "4096",
        **more,
    }


def snapshot(project: str, name: str, *, status: str = "READY", **more: Any) -> JSONObject:
    """A snapshot."""
    return {
        "kind": "compute#snapshot",
        "id": "2234567890123456789",
        "creationTimestamp": TIME,
        "name": name,
        "status": status,
        "sourceDisk": f"{GOOGLE}/projects/{project}/zones/europe-west1-b/disks/data",
        "sourceDiskId": "1234567890123456789",
        "diskSizeGb": "500",
        "storageBytes": "0",
        "storageBytesStatus": "UP_TO_DATE",
        "selfLink": f"{GOOGLE}/projects/{project}/global/snapshots/{name}",
        "labelFingerprint": "42WmSpB8rSM=",
        "storageLocations": ["eu"],
        "downloadBytes": "32876",
        **more,
    }
