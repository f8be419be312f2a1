"""Custom resources nested deeper than parsers allow are saved or named in an error, and only those."""

from collections.abc import AsyncIterator

import orjson
import pytest

from pinnace.api.phases import RestorePhase
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from pinnace.storage.backup_store import BackupStore
from tests.integration.faults.world import Lab, results_of
from tests.support.waiting import eventually

NESTS = APIResource(group="deep.pinnace.io", version="v1", name="nests", kind="Nest", namespaced=True)


def nest(name: str, levels: int) -> bytes:
    head = {"apiVersion": NESTS.api_version, "kind": NESTS.kind, "metadata": {"name": name}}
    return orjson.dumps(head)[:-1] + b',"spec":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


@pytest.fixture
async def nests(client: KubeClient) -> AsyncIterator[APIResource]:
    """A kind that accepts any content, as those of many operators do."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NESTS.group_resource},
        "spec": {
            "group": NESTS.group,
            "scope": "Namespaced",
            "names": {"plural": NESTS.name, "singular": "nest", "kind": NESTS.kind, "listKind": "NestList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

    async def served() -> bool:
        try:
            await client.list_all(NESTS)
        except NotFound:
            return False
        return True

    await eventually(served)
    yield NESTS
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, NESTS.group_resource)


async def test_deep_objects_are_carried_or_named(
    lab: Lab, store: BackupStore, client: KubeClient, namespace: str, nests: APIResource
) -> None:
    depths = {"shallow": 3, "deep": 400, "deeper": 800, "abyss": 3000}
    for name, levels in depths.items():
        await client.create_bytes(nests, nest(name, levels), namespace)

    backed_up = await lab.back_up(
        store, included_namespaces=[namespace], included_resources=[nests.group_resource]
    )
    assert (backed_up.status.phase, backed_up.status.errors) == ("Completed", 0)
    assert backed_up.status.warnings == 1
    async with store.read_text(DownloadTargetKind.BACKUP_LOG, "b1") as stream:
        lines = b"".join([chunk async for chunk in stream]).decode().splitlines()
    [warning] = [line for line in lines if "level=warning" in line]
    assert "nested more than a thousand levels deep and cannot be restored" in warning
    assert "name=abyss" in warning
    assert backed_up.status.progress is not None
    assert backed_up.status.progress.items_backed_up == len(depths)

    target = lab.new_target()
    done = await lab.restore(store, target, source=namespace)

    assert (done.status.phase, done.status.errors) == (RestorePhase.PARTIALLY_FAILED, 1)
    (error,) = [
        text for texts in (await results_of(store))["errors"].get("namespaces", {}).values() for text in texts
    ]
    assert "abyss" in error
    found = {item["metadata"]["name"]: item["spec"] for item in await client.list_all(nests, target)}
    assert found == {
        name: orjson.loads(nest(name, depths[name]))["spec"] for name in ("shallow", "deep", "deeper")
    }
