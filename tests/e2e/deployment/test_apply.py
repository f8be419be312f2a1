"""`install --apply` on a real API server: what changes, what stays, and the output. No pods run here."""

import json
import secrets
from collections.abc import AsyncIterator

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    velero,
)
from tests.e2e.without_server.command import Pinnace

FLAGS = ("--provider", "aws", "--bucket", "b", "--no-secret", "--use-volume-snapshots=false")
OLD, NEW = "registry.example.com/pinnace:v1", "registry.example.com/pinnace:v2"


@pytest.fixture
async def place(client: KubeClient, velero_crds: None) -> AsyncIterator[str]:
    """The name of a namespace to install into, with everything gone afterwards."""
    name = f"velero-{secrets.token_hex(4)}"
    yield name
    for resource, named in (
        (NAMESPACES, name),
        (CLUSTER_ROLE_BINDINGS, f"velero-{name}"),
        (CLUSTER_ROLES, f"velero-{name}"),
    ):
        try:
            await client.delete(resource, named)
        except NotFound:
            continue


@pytest.fixture
def here(command: Pinnace, place: str) -> Pinnace:
    """The command, for that namespace."""
    command.environ["VELERO_NAMESPACE"] = place
    return command


async def change_as(client: KubeClient, manager: str, namespace: str, change: JSONObject) -> None:
    """Change the server's Deployment as another program does."""
    await client.request(
        "PATCH",
        DEPLOYMENTS.path(namespace, "velero"),
        params={"fieldManager": manager},
        body=json.dumps(change).encode(),
        content_type="application/strategic-merge-patch+json",
    )


def server_of(deployment: JSONObject) -> JSONObject:
    """The server's container."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


@pytest.mark.parametrize("first", [(), ("--apply",)], ids=["created", "applied"])
async def test_apply_changes_what_the_flags_say_and_keeps_the_rest(
    client: KubeClient, here: Pinnace, place: str, first: tuple[str, ...]
) -> None:
    earlier = [
        "--features",
        "EnableAPIGroupVersions",
        "--pod-annotations",
        "a=b",
        "--restic-pod-cpu-limit",
        "2",
    ]
    location = ["--backup-location-config", "region=one,s3Url=http://old.example.com"]
    assert (await here("install", *FLAGS, "--image", OLD, *earlier, *location, *first)).code == 0
    assert (await here("plugin", "add", "registry.example.com/plugin:v3")).code == 0
    assert (await here("backup-location", "set", "default", "--credential", "mine=cloud")).code == 0
    container: JSONObject = {"name": "velero", "env": [{"name": "TZ", "value": "Europe/Berlin"}]}
    change: JSONObject = {
        "metadata": {"annotations": {"mine": "kept"}},
        "spec": {
            "replicas": 2,
            "template": {"spec": {"containers": [container], "nodeSelector": {"a": "b"}}},
        },
    }
    await change_as(client, "kubectl-edit", place, change)

    location = ["--backup-location-config", "region=two"]
    done = await here("install", *FLAGS, "--image", NEW, "--use-restic", *location, "--apply")

    assert (done.code, done.told) == (0, "")
    assert "Deployment/velero" in next(line for line in done.lines if line.startswith("Applied"))
    found = await client.get(DEPLOYMENTS, "velero", place)
    pod = found["spec"]["template"]
    assert server_of(found)["image"] == NEW
    # Fields that the earlier install set and this one does not.
    assert server_of(found)["args"] == ["server"]
    assert "a" not in pod["metadata"]["annotations"]
    # Fields that other programs set.
    assert found["metadata"]["annotations"]["mine"] == "kept"
    assert (found["spec"]["replicas"], pod["spec"]["nodeSelector"]) == (2, {"a": "b"})
    assert {"name": "TZ", "value": "Europe/Berlin"} in server_of(found)["env"]
    assert [plugin["image"] for plugin in pod["spec"]["initContainers"]] == ["registry.example.com/plugin:v3"]
    await client.get(DAEMON_SETS, "node-agent", place)
    spec = (await client.get(velero("backupstoragelocations"), "default", place))["spec"]
    assert spec["config"] == {"region": "two"}
    assert spec["credential"] == {"name": "mine", "key": "cloud"}


async def test_it_names_what_another_program_had_changed(
    client: KubeClient, here: Pinnace, place: str
) -> None:
    assert (await here("install", *FLAGS, "--image", OLD)).code == 0
    container: JSONObject = {"name": "velero", "resources": {"requests": {"cpu": "50m"}}}
    change = {"spec": {"template": {"spec": {"containers": [container]}}}}
    await change_as(client, "kubectl-edit", place, change)

    done = await here("install", *FLAGS, "--image", OLD, "--apply")

    assert done.code == 0
    assert done.told == (
        "Deployment/velero: set again "
        '.spec.template.spec.containers[name="velero"].resources.requests.cpu, which kubectl-edit had set\n'
    )
    found = await client.get(DEPLOYMENTS, "velero", place)
    assert server_of(found)["resources"]["requests"]["cpu"] == "500m"
    again = await here("install", *FLAGS, "--image", OLD, "--apply")
    assert (again.code, again.told) == (0, "")


@pytest.mark.parametrize(
    ("before", "after", "role"),
    [((), ("--minimal-rbac",), "cluster-admin"), (("--minimal-rbac",), (), "velero-{place}")],
    ids=["fewer", "more"],
)
async def test_a_binding_keeps_its_role(
    client: KubeClient, here: Pinnace, place: str, before: tuple[str, ...], after: tuple[str, ...], role: str
) -> None:
    """No API server lets it change; the rest is brought in line."""
    assert (await here("install", *FLAGS, "--image", OLD, *before)).code == 0

    done = await here("install", *FLAGS, "--image", NEW, *after, "--apply")

    assert done.code == 0
    role = role.format(place=place)
    assert f"WARNING: ClusterRoleBinding/velero-{place} still gives the server {role}. " in done.err
    assert server_of(await client.get(DEPLOYMENTS, "velero", place))["image"] == NEW
    assert f"kubectl delete clusterrolebinding velero-{place}" in done.err
    await client.delete(CLUSTER_ROLE_BINDINGS, f"velero-{place}")
    assert (await here("install", *FLAGS, "--image", NEW, *after, "--apply")).told == ""


async def test_definitions_are_applied_alone(here: Pinnace) -> None:
    done = await here("install", "--crds-only", "--apply")

    assert (done.code, done.told) == (0, "")
    assert "Applied: 14 custom resource definitions" in done.lines


async def test_a_refusal_of_the_api_server_is_reported(here: Pinnace, control_plane: ControlPlane) -> None:
    here.environ["VELERO_NAMESPACE"] = "Not-A-Name"

    done = await here("install", *FLAGS, "--apply")

    assert done.code == 1
    assert 'Error applying resource Namespace/Not-A-Name: Namespace "Not-A-Name" is invalid' in done.err
