"""Into other namespaces of the same cluster: the copies beside their originals, all compared."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from examples.compare import Key, World, compare_worlds
from examples.documented import DOCUMENTED
from examples.world import take_snapshot
from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, SERVICE_ACCOUNTS, SERVICES
from tests.integration.roundtrip.runs import back_up, restore
from tests.integration.roundtrip.selection_world import RBAC
from tests.integration.roundtrip.selection_world import World as SmallWorld
from tests.support.waiting import eventually


@pytest.fixture
async def world(client: KubeClient) -> AsyncIterator[SmallWorld]:
    """The small world, with a service and a binding that names accounts of two namespaces."""
    made = SmallWorld(f"w{secrets.token_hex(3)}")
    await made.install(client)
    first, second, _ = made.namespaces
    await client.create(
        SERVICES,
        {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "selector": {"run": "web"}}},
        first,
    )
    bindings = (await Discovery.load(client)).preferred(f"rolebindings.{RBAC}")
    assert bindings is not None
    subjects = [
        {"kind": "ServiceAccount", "name": "runner", "namespace": first},
        {"kind": "ServiceAccount", "name": "other", "namespace": "kube-system"},
    ]
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    await client.create(
        bindings, {"metadata": {"name": "readers"}, "roleRef": role, "subjects": subjects}, second
    )
    for namespace in made.namespaces:
        await settled(client, namespace)
    yield made
    await made.remove(client)


async def settled(client: KubeClient, namespace: str) -> None:
    """Wait for the objects that the control plane puts into every namespace."""

    async def there() -> bool:
        try:
            await client.get(CONFIGMAPS, "kube-root-ca.crt", namespace)
            await client.get(SERVICE_ACCOUNTS, "default", namespace)
        except NotFound:
            return False
        return True

    await eventually(there)


def renamed(world: World, names: dict[str, str]) -> World:
    """The world with its namespaces under other names, also where objects name them."""

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: put(item) for key, item in value.items()}
        if isinstance(value, list):
            return [put(item) for item in value]
        return names.get(value, value) if isinstance(value, str) else value

    moved = [put(item) for item in world.values() if item["metadata"].get("namespace") in names]
    return {Key.of(item): item for item in moved}


async def test_copies_in_mapped_namespaces_equal_their_originals(
    control_plane: ControlPlane, client: KubeClient, world: SmallWorld, tmp_path: Path
) -> None:
    first, second, third = world.namespaces
    mapping = {first: f"{first}-copy", second: f"{second}-copy"}
    await back_up(control_plane, tmp_path, "b1", included_namespaces=list(world.namespaces))
    before = await take_snapshot(client, world.namespaces, ())

    restored = await restore(
        *(control_plane, tmp_path, "r1"),
        backup="b1",
        # By their names in the backup; the third stays out of it.
        included_namespaces=[first, second],
        namespace_mapping=mapping,
    )
    for namespace in mapping.values():
        await settled(client, namespace)
    copies = await take_snapshot(client, mapping.values(), ())

    hidden = {item.name for item in world.items if item.labels.get("velero.io/exclude-from-backup") == "true"}
    wanted = renamed({key: item for key, item in before.items() if key.name not in hidden}, mapping)
    comparison = compare_worlds(wanted, {}, copies, DOCUMENTED)
    unexplained = [str(difference) for difference in comparison.unexplained]
    assert unexplained == []
    assert wanted.keys() <= copies.keys()
    assert restored["status"].get("errors", 0) == 0
    assert restored["status"].get("warnings", 0) == 0
    assert before == await take_snapshot(client, world.namespaces, ())  # the originals are as they were
    labels = (await client.get(NAMESPACES, mapping[first]))["metadata"]["labels"]
    assert labels == {"app": "web", "kubernetes.io/metadata.name": mapping[first]}
    for namespace in mapping.values():
        await client.delete(NAMESPACES, namespace)
    with pytest.raises(NotFound):
        await client.get(NAMESPACES, f"{third}-copy")
