"""Commands about the server itself: `plugin`, `debug`, `uninstall`. No node runs it here."""

import json
import secrets
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    velero,
)
from tests.e2e.without_server.command import Pinnace
from tests.support.runs.command_lines import error, only_line
from tests.support.waiting import eventually

SECRET = "hunter2hunter2"
OURS = {"component": "velero"}


async def deploy(client: KubeClient, namespace: str) -> None:
    """A server's Deployment as others install it, without a volume for plugins."""
    labels = {**OURS, "deploy": "velero"}
    container = {
        "name": "velero",
        "image": "registry.invalid/server",
        "env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": SECRET}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "velero", "labels": OURS},
        "spec": {
            "selector": {"matchLabels": {"deploy": "velero"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "volumes": [{"name": "scratch", "emptyDir": {}}]},
            },
        },
    }
    await client.create(DEPLOYMENTS, body, namespace)


async def pod_spec(client: KubeClient, namespace: str) -> JSONObject:
    deployment = await client.get(DEPLOYMENTS, "velero", namespace)
    spec: JSONObject = deployment["spec"]["template"]["spec"]
    return spec


async def test_plugins_are_added_and_removed(client: KubeClient, namespace: str, command: Pinnace) -> None:
    nobody = await command("plugin", "add", "plugin:v1")
    assert error(nobody).startswith("Velero deployment not found: namespace ")
    await deploy(client, namespace)
    before = await pod_spec(client, namespace)

    for words in (["one:v1"], ["registry.invalid/my/two:v2", "--image-pull-policy", "Always"]):
        assert (await command("plugin", "add", *words)).out == ""

    after = await pod_spec(client, namespace)
    shown = [
        (
            c["name"],
            c["image"],
            c["imagePullPolicy"],
            [(m["name"], m["mountPath"]) for m in c["volumeMounts"]],
        )
        for c in after["initContainers"]
    ]
    assert shown == [
        ("one", "one:v1", "IfNotPresent", [("plugins", "/target")]),
        ("my-two", "registry.invalid/my/two:v2", "Always", [("plugins", "/target")]),
    ]
    assert [volume["name"] for volume in after["volumes"]] == ["scratch", "plugins"]
    mounts = after["containers"][0].pop("volumeMounts")
    assert [mount["mountPath"] for mount in mounts] == ["/scratch", "/plugins"]
    before["containers"][0].pop("volumeMounts")
    assert after["containers"] == before["containers"]

    twice = await command("plugin", "add", "one:v2")
    assert twice.code == 1
    assert 'Duplicate value: "one"' in twice.err
    for name_or_image in ("one", "registry.invalid/my/two:v2"):
        assert (await command("plugin", "remove", name_or_image)).code == 0
    assert "initContainers" not in await pod_spec(client, namespace)
    gone = await command("plugin", "remove", "one")
    assert error(gone).startswith("init container one not found in Velero server deployment")


def bundled(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {name.removeprefix("bundle/"): file.read().decode() for name, file in files.items() if file}


@pytest.mark.spec("BEY-072")
async def test_a_debug_bundle_is_made_of_a_server_whose_node_is_gone(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    refused = await command("debug", "--output", "nothing.tar.gz")
    assert error(refused).startswith(f"no server found in namespace {namespace}")
    await deploy(client, namespace)
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": SECRET}}
    await client.create(SECRETS, token, namespace)
    # The service account comes with a controller, and the pod after it.
    await eventually(lambda: _has_pods(client, namespace))
    backup = {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b"}}
    await client.create(velero("backups"), {**backup, "status": {"phase": "Completed"}}, namespace)
    started = await _pod_that_lost_its_node(client, namespace)

    unknown = await command("debug", "--output", "nothing.tar.gz", "--backup", "nope")
    assert error(unknown) == f'backups.velero.io "nope" not found; namespace {namespace} has b'
    made = await command("debug", "--output", "bundle.tar.gz", "--verbose")

    assert made.code == 0
    assert not (command.folder / "nothing.tar.gz").exists()
    files = bundled(command.folder / "bundle.tar.gz")
    waiting = [pod["metadata"]["name"] for pod in await client.list_all(PODS, namespace)]
    waiting.remove(started)
    assert (
        f"log {waiting[0]}: no container has started (phase Pending); it is on no node"
        in files["problems.txt"]
    )
    assert f"log {started}/main.log: " in files["problems.txt"]
    assert "the server did not answer within 5s" in files["problems.txt"]
    assert f"WARNING: log {started}/main.log: " in made.err
    assert json.loads(files["objects/backups.json"])[0]["metadata"]["name"] == "b"
    assert json.loads(files["objects/deployments.json"])[0]["metadata"]["name"] == "velero"
    assert "Cluster: v" in files["version.txt"]
    assert SECRET not in "".join(files.values())
    assert not any("backup_b" in name for name in files)


async def _has_pods(client: KubeClient, namespace: str) -> bool:
    return bool(await client.list_all(PODS, namespace))


async def _pod_that_lost_its_node(client: KubeClient, namespace: str) -> str:
    """A pod whose container has run, on a node that is gone."""
    spec = {"nodeName": "lost", "containers": [{"name": "main", "image": "registry.invalid/x"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lost-pod"}, "spec": spec}
    await client.create(PODS, body, namespace)
    state = {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 0, "state": {}}
    status = {"phase": "Running", "containerStatuses": [state]}
    await client.patch(PODS, "lost-pod", {"status": status}, namespace, subresource="status")
    return "lost-pod"


@pytest.fixture
async def installed(client: KubeClient, velero_crds: None) -> str:
    """A namespace with all that `install` makes, and objects with finalizers whose server is gone."""
    namespace = f"velero-{secrets.token_hex(4)}"
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    )
    name = f"velero-{namespace}"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": OURS},
    }
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": reference}
    await client.create(CLUSTER_ROLES, role)
    await client.create(CLUSTER_ROLE_BINDINGS, binding)
    for definition in await client.list_all(CUSTOM_RESOURCE_DEFINITIONS):
        if definition["spec"]["group"] == "velero.io":
            patch = {"metadata": {"labels": OURS}}
            await client.patch(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"], patch)
    finalizers = ["restores.velero.io/external-resources-finalizer"]
    restore = {
        "apiVersion": "velero.io/v1",
        "kind": "Restore",
        "metadata": {"name": "r1", "finalizers": finalizers},
        "spec": {"backupName": "b"},
    }
    await client.create(velero("restores"), restore, namespace)
    return namespace


async def exists(client: KubeClient, resource: Any, name: str) -> bool:
    try:
        await client.get(resource, name)
    except NotFound:
        return False
    return True


@pytest.mark.found("E-F3")
async def test_uninstall_waits_until_all_is_gone(
    client: KubeClient, installed: str, command: Pinnace
) -> None:
    declined = await command("uninstall", "-n", installed, stdin="n\n")
    assert declined.code == 0
    assert await exists(client, CLUSTER_ROLE_BINDINGS, f"velero-{installed}")

    outcome = await command("uninstall", "-n", installed, "--force")

    assert (outcome.code, outcome.told) == (0, ""), outcome
    assert outcome.lines[0].startswith("Waiting until all is gone.")
    assert set(outcome.lines[1]) == {"."}
    assert outcome.lines[2] == "Pinnace is uninstalled."
    for resource, name in (
        (NAMESPACES, installed),
        (CLUSTER_ROLE_BINDINGS, f"velero-{installed}"),
        (CLUSTER_ROLES, f"velero-{installed}"),
    ):
        assert not await exists(client, resource, name)
    definitions = await client.list_all(CUSTOM_RESOURCE_DEFINITIONS, label_selector="component=velero")
    assert definitions == []

    again = await command("uninstall", "-n", installed, "--force")
    assert again.lines == [
        f'Namespace "{installed}" does not exist, skipping.',
        f'ClusterRoleBinding "velero-{installed}" does not exist, skipping.',
        "V1Beta1 custom resource definitions not found, skipping...",
        "Pinnace is uninstalled.",
    ]
    nothing = await command("backup", "get", "-n", installed)
    assert error(nothing).startswith("the cluster does not serve the custom resources of the server")
    refused = await command("backup", "logs", "x", "-n", installed)
    assert "`pinnace install --help`" in error(refused)


async def test_client_settings_name_the_server(client: KubeClient, namespace: str, command: Pinnace) -> None:
    command.environ.pop("VELERO_NAMESPACE")
    await command("backup-location", "create", "here", "--provider", "p", "--bucket", "b", "-n", namespace)

    assert (
        await command("client", "config", "set", f"namespace={namespace}", "features=EnableCSI")
    ).code == 0

    assert only_line(await command("backup-location", "get", "-o", "name")).endswith("/here")
    assert (await command("client", "config", "get")).lines == [
        "features: EnableCSI",
        f"namespace: {namespace}",
    ]
    await command("client", "config", "set", "namespace=")
    assert (await command("backup-location", "get", "-o", "name")).out == ""
