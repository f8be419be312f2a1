"""What a real API server keeps of an object on trial, for a definition with fewer fields than today's."""

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.common.known_fields import with_known_fields
from pinnace.cli.errors import CommandError
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from pinnace.restore.definitions import is_established
from tests.support.waiting import eventually

OLDER = APIResource(group="older.example.com", version="v1", name="backups", kind="Backup", namespaced=True)


def definition() -> JSONObject:
    """A definition as Velero 1.9 has it, with the two fields that matter here."""
    fields = {"ttl": {"type": "string"}, "defaultVolumesToRestic": {"type": "boolean", "nullable": True}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{OLDER.name}.{OLDER.group}"},
        "spec": {
            "group": OLDER.group,
            "scope": "Namespaced",
            "names": {"plural": OLDER.name, "kind": OLDER.kind},
            "versions": [version],
        },
    }


def backup(namespace: str, **spec: object) -> JSONObject:
    return {
        "apiVersion": OLDER.api_version,
        "kind": OLDER.kind,
        "metadata": {"name": "b", "namespace": namespace},
        "spec": {"ttl": "1h0m0s", **spec},
    }


@pytest.mark.found("X3")
async def test_fields_that_the_definition_lacks_get_their_former_name_or_are_refused(
    client: KubeClient, namespace: str
) -> None:
    made = await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    try:

        async def served() -> bool:
            found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, made["metadata"]["name"])
            return is_established(found)

        await eventually(served)

        for value in (True, False):
            sent = await with_known_fields(client, OLDER, backup(namespace, defaultVolumesToFsBackup=value))
            assert sent["spec"] == {"ttl": "1h0m0s", "defaultVolumesToRestic": value}
        with pytest.raises(CommandError, match=r"has no field spec\.snapshotMoveData, and a server"):
            await with_known_fields(client, OLDER, backup(namespace, snapshotMoveData=True))
        assert await client.list_all(OLDER, namespace) == []
    finally:
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, made["metadata"]["name"])
