"""What Azure's resource manager answers about disks: API version 2021-12-01, as recorded in public.

Names, shapes, status codes and headers are those of the recorded exchanges in Azure/azure-sdk-for-python
(`azure-mgmt-compute/tests/recordings/test_mgmt_compute_disks.*`) and the examples of
`Microsoft.Compute/DiskRP` in Azure/azure-rest-api-specs: a change is answered 202 with the URL of the
operation in `azure-asyncoperation` and a second one in `location`, the resource in state `Updating` (nothing
for a deletion), and 204 for the deletion of what is not there; the operation is `InProgress` and later
`Succeeded`, `Failed` or `Canceled`.
"""

from collections.abc import Mapping

from pinnace.api.objects import JSONObject

OPERATIONS = "/subscriptions/sub/providers/Microsoft.Compute/locations/westeurope/DiskOperations"
TIME = "2021-10-09T06:26:10.0201995+00:00"
BEGUN: Mapping[str, str] = {
    "azure-asyncoperation": f"{{url}}{OPERATIONS}/1?p=x&api-version=2021-12-01",
    "location": f"{{url}}{OPERATIONS}/1?p=x&monitor=true&api-version=2021-12-01",
}


def state(status: str, *, error: tuple[str, str] | None = None) -> JSONObject:
    """An operation; an error is code and message."""
    over = {} if status == "InProgress" else {"endTime": TIME}
    reason = {"error": dict(zip(("code", "message"), error, strict=True))} if error else {}
    return {"startTime": TIME, **over, "status": status, **reason, "name": "1"}


def refusal(code: str, message: str) -> JSONObject:
    """The body of an error status."""
    return {"error": {"code": code, "message": message}}


def disk(resource_id: str, *, sku: str = "Premium_LRS", tags: Mapping[str, str] | None = None) -> JSONObject:
    """A disk that is not in use."""
    return {
        "name": resource_id.rpartition("/")[2],
        "id": resource_id,
        "type": "Microsoft.Compute/disks",
        "location": "westeurope",
        **({"tags": dict(tags)} if tags else {}),
        "sku": {"name": sku, "tier": sku.partition("_")[0]},
        "properties": {
            "creationData": {"createOption": "Empty"},
            "diskSizeGB": 200,
            "encryption": {"type": "EncryptionAtRestWithPlatformKey"},
            "networkAccessPolicy": "AllowAll",
            "timeCreated": TIME,
            "provisioningState": "Succeeded",
            "diskState": "Unattached",
            "diskSizeBytes": 214748364800,
            "uniqueId": "ab979430-51a2-4d43-81c6-09dec4c7403b",
        },
    }


def snapshot(resource_id: str, *, tags: Mapping[str, str] | None = None) -> JSONObject:
    """A snapshot that has been taken."""
    return {
        **disk(resource_id, sku="Standard_LRS", tags=tags),
        "type": "Microsoft.Compute/snapshots",
        "properties": {
            "creationData": {"createOption": "Copy", "sourceResourceId": "/subscriptions/sub/disks/data"},
            "diskSizeGB": 200,
            "incremental": False,
            "provisioningState": "Succeeded",
        },
    }


def accepted(state: str = "Updating") -> JSONObject:
    """The resource while it is made: what was sent, and that it is not done."""
    return {"location": "westeurope", "properties": {"provisioningState": state, "isArmResource": True}}
