"""The objects of `install` on a real API server: accepted unchanged, sufficient, and waited for."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIGMAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    APIResource,
    velero,
)
from tests.e2e.server_process import ServerProcess
from tests.e2e.without_server.command import Pinnace
from tests.support.servers.homes import Home, as_server
from tests.support.waiting import eventually

ROLES = APIResource(
    group="rbac.authorization.k8s.io", version="v1", name="roles", kind="Role", namespaced=True
)
AWS = ("--provider", "aws", "--bucket", "b", "--snapshot-location-config", "region=eu-central-1")
SERVER = ("--image", "registry.example.com/pinnace:v1", "--use-restic")


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


def keeps(sent: Any, stored: Any) -> bool:
    """Whether the API server kept everything that was sent; it adds defaults and drops empty members."""
    if isinstance(sent, dict):
        stored = stored or {}
        return all(keeps(value, stored.get(key)) for key, value in sent.items())
    if isinstance(sent, list):
        return len(sent) == len(stored or ()) and all(map(keeps, sent, stored or ()))
    return sent == stored or (sent is None and stored is not None)


@pytest.mark.found("X4", "X10")
async def test_the_api_server_knows_every_member(
    client: KubeClient, command: Pinnace, place: str, tmp_path: Path
) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("[default]\n")
    words = ["install", "-n", place, *AWS, *SERVER, "--secret-file", str(credentials), "--restore-only"]
    words += ["--plugins", "example.com/plugins/one:v1,two", "--features", "EnableCSI", "--minimal-rbac"]
    words += ["--pod-annotations", "a=b", "--default-restic-prune-frequency", "24h"]
    made = await command(*words)
    assert (made.code, made.told) == (0, "")

    listing = yaml.safe_load((await command(*words, "--dry-run", "-o", "yaml")).out)
    sent = {item["kind"]: item for item in listing["items"]}
    for resource, name, kind in (
        (NAMESPACES, place, "Namespace"),
        (DEPLOYMENTS, "velero", "Deployment"),
        (DAEMON_SETS, "node-agent", "DaemonSet"),
        (ROLES, "velero", "Role"),
        (CLUSTER_ROLES, f"velero-{place}", "ClusterRole"),
    ):
        stored = await client.get(resource, name, place)
        assert keeps(sent[kind], stored), (sent[kind], stored)
    for kind in ("Deployment", "DaemonSet"):
        path = f"/apis/apps/v1/namespaces/{place}/{kind.lower()}s"
        sent[kind]["metadata"]["name"] += "-strict"
        strict = {"dryRun": "All", "fieldValidation": "Strict"}
        await client.request("POST", path, params=strict, body=json.dumps(sent[kind]).encode())


@pytest.mark.found("X4")
@pytest.mark.spec("CLI-041")
async def test_a_second_install_adds_what_is_missing_and_keeps_what_was_changed(
    client: KubeClient, command: Pinnace, place: str
) -> None:
    words = ["install", "-n", place, *AWS, "--no-secret", *SERVER[:2]]
    assert (await command(*words)).code == 0
    change = {"spec": {"replicas": 0, "template": {"metadata": {"annotations": {"mine": "kept"}}}}}
    await client.patch(DEPLOYMENTS, "velero", change, place)
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    await client.patch(NAMESPACES, place, level)

    second = await command(*words[:-1], "registry.example.com/pinnace:v2", "--use-restic", "--minimal-rbac")

    assert second.code == 0
    assert "Deployment/velero" in next(line for line in second.lines if line.startswith("Existed"))
    deployment = await client.get(DEPLOYMENTS, "velero", place)
    template = deployment["spec"]["template"]
    assert template["spec"]["containers"][0]["image"].endswith(":v1")
    assert template["metadata"]["annotations"]["mine"] == "kept"
    assert deployment["spec"]["replicas"] == 0
    await client.get(DAEMON_SETS, "node-agent", place)
    # A namespace that was there keeps its labels, and refuses the pods that only now are asked for.
    assert f"WARNING: namespace {place} refuses the pods of the node agent: " in second.err
    assert 'violates PodSecurity "baseline:latest"' in second.err
    # Fewer rights were asked for, and are not there.
    assert f"WARNING: ClusterRoleBinding/velero-{place} still gives the server cluster-admin" in second.err
    # What it advises works.
    await client.delete(CLUSTER_ROLE_BINDINGS, f"velero-{place}")
    third = await command(*words, "--minimal-rbac")
    assert third.code == 0
    assert third.told.splitlines() == [
        f"WARNING: Deployment/velero has 0 replicas, so it does not run. Start it: kubectl -n {place} scale"
        " deployment/velero --replicas=1"
    ]
    binding = await client.get(CLUSTER_ROLE_BINDINGS, f"velero-{place}")
    assert binding["roleRef"]["name"] == f"velero-{place}"


async def answer_for_nodes(client: KubeClient, namespace: str) -> None:
    """Let each pod of the namespace be ready: there is no node here on which they could run."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2021-01-01T00:00:00Z"}
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    events = client.watch(PODS, namespace, resource_version="0")
    async with aclosing(events):
        async for event in events:
            if event.type == "ADDED":
                name = event.object["metadata"]["name"]
                await client.patch(PODS, name, status, namespace, subresource="status")


async def test_it_waits_until_the_server_is_ready(client: KubeClient, command: Pinnace, place: str) -> None:
    async with asyncio.TaskGroup() as group:
        nodes = group.create_task(answer_for_nodes(client, place))
        made = await command("install", "-n", place, *AWS, "--no-secret", *SERVER, "--wait")
        nodes.cancel()

    assert (made.code, made.told) == (0, "")
    assert [line for line in made.lines if line.startswith("Waiting for")] == [
        "Waiting for Pinnace deployment to be ready.",
        "Waiting for Pinnace node agent daemonset to be ready.",
    ]
    assert "\nPinnace is installed." in made.out
    assert "get secret velero-repo-credentials" in made.lines[-1]


async def test_a_server_works_with_the_rights_it_is_given(
    home: Home, client: KubeClient, command: Pinnace, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """And with no more: a role with rights that the server lacks is refused, everything else is restored."""
    namespace, target = home.namespace, f"target-{secrets.token_hex(4)}"
    name = f"velero-{namespace}"
    words = ["--no-default-backup-location", "--use-volume-snapshots=false", "--no-secret"]
    assert (await command("install", "-n", namespace, *words, "--minimal-rbac")).code == 0
    await client.create(ROLES, role("reads", "get"), namespace)
    await client.create(ROLES, role("deletes", "delete"), namespace)
    server = ServerProcess(
        tmp_path, await as_server(client, control_plane, namespace, tmp_path), "-n", namespace
    )
    try:
        await server.start()
        await server.ready()
        spec: dict[str, Any] = {"includedNamespaces": [namespace]}
        await client.create(velero("backups"), ours("Backup", "b1", spec), namespace)
        status = await home.ended("backups", "b1")
        assert (status["phase"], status.get("errors", 0)) == ("Completed", 0), server.log
        mapping = {namespace: target}
        spec = {"backupName": "b1", "namespaceMapping": mapping, "excludedResources": ["rolebindings"]}
        await client.create(velero("restores"), ours("Restore", "r1", spec), namespace)
        status = await home.ended("restores", "r1")
        assert (status["phase"], status["errors"]) == ("PartiallyFailed", 2), (
            server.log
        )  # `deletes`, and the server's own
        assert 'roles.rbac.authorization.k8s.io \\"deletes\\" is forbidden' in server.log
        assert (await client.get(CONFIGMAPS, "map-2", target))["data"] == {"number": "2"}
        await client.get(ROLES, "reads", target)

        await client.create(
            velero("deletebackuprequests"),
            ours("DeleteBackupRequest", "d1", {"backupName": "b1"}),
            namespace,
        )

        async def deleted() -> bool:
            return not await client.list_all(velero("backups"), namespace)

        await eventually(deleted)
        assert await server.stop() == 0
        assert server.log.count("forbidden") == 2
    finally:
        await server.kill()
        for resource, named in ((NAMESPACES, target), (CLUSTER_ROLE_BINDINGS, name), (CLUSTER_ROLES, name)):
            await client.delete(resource, named)


def role(name: str, verb: str) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]
    api_version = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": api_version, "kind": "Role", "metadata": {"name": name}, "rules": rules}


def ours(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
