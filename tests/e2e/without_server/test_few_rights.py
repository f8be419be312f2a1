"""Backups and restores by users who may do little: the namespaced roles of a real API server."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    APIResource,
)
from tests.e2e.without_server.command import Pinnace
from tests.support.runs.without_server import MakePinnace

RBAC = "rbac.authorization.k8s.io"
ROLES = APIResource(group=RBAC, version="v1", name="roles", kind="Role", namespaced=True)
ROLE_BINDINGS = APIResource(
    group=RBAC, version="v1", name="rolebindings", kind="RoleBinding", namespaced=True
)
NamespacedUser = Callable[[str], Awaitable[Path]]


@pytest.fixture
async def namespaced_user(
    control_plane: ControlPlane, client: KubeClient, tmp_path: Path, world: str
) -> NamespacedUser:
    """A function that makes a user who has a role in `world` and nothing else; returns the kubeconfig.

    The role is a cluster role (`view`, `edit`), or `reader` for one that reads config maps.
    """

    async def make(role: str) -> Path:
        name, kind = f"{world}-{role}", "ClusterRole"
        if role == "reader":
            kind = "Role"
            rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
            await client.create(ROLES, {"metadata": {"name": role}, "rules": rules}, world)
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
        }
        await client.create(ROLE_BINDINGS, binding, world)
        pair = control_plane.authority.issue_client(name, user=name)
        return control_plane.write_kubeconfig(tmp_path / name, server=control_plane.url, client=pair)

    return make


async def test_a_user_who_may_read_config_maps_of_one_namespace_backs_them_up(
    pinnace_for: MakePinnace, location: Path, world: str, namespaced_user: NamespacedUser
) -> None:
    pinnace = pinnace_for(str(location), kubeconfig=await namespaced_user("reader"))

    outcome = await pinnace(
        *("backup", "create", "b1", "--include-namespaces", world, "--include-resources", "configmaps")
    )

    assert outcome.code == 0, outcome
    assert ", 0 errors, 0 warnings." in outcome.out


async def add_application(client: KubeClient, world: str) -> None:
    """A pod with an account and a bound claim."""
    volume, claim = f"{world}-volume", {"namespace": world, "name": "data"}
    shape: JSONObject = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    source = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/nowhere"}, "claimRef": claim}
    await client.create(PERSISTENT_VOLUMES, {"metadata": {"name": volume}, "spec": {**shape, **source}})
    wish = {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume}
    data = {"metadata": {"name": "data"}, "spec": {**shape, **wish}}
    await client.create(PERSISTENT_VOLUME_CLAIMS, data, world)
    bound = {"status": {"phase": "Bound"}}
    await client.patch(PERSISTENT_VOLUME_CLAIMS, "data", bound, world, subresource="status")
    pod = {
        "metadata": {"name": "app"},
        "spec": {
            "serviceAccountName": "app",
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "example.org/none"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "app"}}, world)
    await client.create(PODS, pod, world)


async def test_what_a_user_of_one_namespace_may_not_read_is_counted_and_the_rest_is_saved(
    pinnace_for: MakePinnace, location: Path, world: str, namespaced_user: NamespacedUser, client: KubeClient
) -> None:
    await add_application(client, world)
    pinnace = pinnace_for(str(location), kubeconfig=await namespaced_user("edit"))

    outcome = await pinnace("backup", "create", "b1", "--include-namespaces", world)

    assert outcome.code == 3, outcome
    log = (await pinnace("backup", "logs", "b1")).out
    errors = [line for line in log.splitlines() if "level=error" in line]
    assert all("forbidden" in line for line in errors), errors
    about_items = [line for line in errors if "Error listing items" not in line]
    accounts = [line for line in about_items if "cluster role bindings of service account" in line]
    volumes = [line for line in about_items if "persistentvolumes" in line and f"name={world}-volume" in line]
    assert accounts
    assert len(volumes) == 1
    assert len(about_items) == len(accounts) + 1, about_items
    details = (await pinnace("backup", "describe", "b1", "--details")).out
    for text in ("v1/Pod", "v1/PersistentVolumeClaim", "v1/Secret", "v1/ServiceAccount", "v1/ConfigMap"):
        assert text in details


async def test_a_user_with_edit_in_one_namespace_restores_into_it(
    pinnace: Pinnace, pinnace_for: MakePinnace, location: Path, world: str, namespaced_user: NamespacedUser,
    client: KubeClient,
) -> None:  # fmt: skip
    assert (await pinnace("backup", "create", "b1", "--include-namespaces", world)).code == 0
    await client.delete(CONFIGMAPS, "settings", world)
    await client.delete(SECRETS, "password", world)
    limited = pinnace_for(str(location), kubeconfig=await namespaced_user("edit"))

    outcome = await limited(
        *("restore", "create", "r1", "--from-backup", "b1", "--include-resources", "configmaps,secrets")
    )

    assert outcome.code == 0, outcome
    assert (await client.get(CONFIGMAPS, "settings", world))["data"] == {"key": "value of settings"}
    await client.get(SECRETS, "password", world)


async def test_a_restore_by_a_user_with_edit_counts_what_is_refused_and_restores_the_rest(
    pinnace: Pinnace, pinnace_for: MakePinnace, location: Path, world: str, namespaced_user: NamespacedUser,
    client: KubeClient,
) -> None:  # fmt: skip
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    await client.create(ROLES, {"metadata": {"name": "role"}, "rules": rules}, world)
    assert (await pinnace("backup", "create", "b1", "--include-namespaces", world)).code == 0
    await client.delete(CONFIGMAPS, "settings", world)
    await client.delete(ROLES, "role", world)
    limited = pinnace_for(str(location), kubeconfig=await namespaced_user("edit"))

    outcome = await limited("restore", "create", "r1", "--from-backup", "b1")

    assert outcome.code == 3, outcome
    description = (await pinnace("restore", "describe", "r1")).out
    assert f"error restoring roles.rbac.authorization.k8s.io/{world}/role: " in description
    assert (await client.get(CONFIGMAPS, "settings", world))["data"] == {"key": "value of settings"}


async def test_a_user_with_edit_restores_pods_and_claims(
    pinnace: Pinnace, pinnace_for: MakePinnace, location: Path, world: str, namespaced_user: NamespacedUser,
    client: KubeClient,
) -> None:  # fmt: skip
    await add_application(client, world)
    assert (await pinnace("backup", "create", "b1", "--include-namespaces", world)).code == 0
    target = f"{world}-copy"
    await client.create(NAMESPACES, {"metadata": {"name": target}})
    kubeconfig = await namespaced_user("edit")
    binding = {
        "metadata": {"name": "edit"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": f"{world}-edit"}],
    }
    await client.create(ROLE_BINDINGS, binding, target)
    limited = pinnace_for(str(location), kubeconfig=kubeconfig)

    outcome = await limited(
        *("restore", "create", "r1", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}")
    )

    description = (await pinnace("restore", "describe", "r1")).out
    # The user may not create the volume, which is reported; the claim finds or gets another.
    assert outcome.code == 3, outcome
    assert description.count(" is forbidden: ") == 1, description
    assert f"error restoring persistentvolumes/{world}-volume: " in description
    await client.get(PODS, "app", target)
    await client.get(PERSISTENT_VOLUME_CLAIMS, "data", target)
    assert (await client.get(CONFIGMAPS, "settings", target))["data"] == {"key": "value of settings"}
    await client.delete(NAMESPACES, target)
