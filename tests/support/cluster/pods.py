"""Pods on the nodes of a test cluster: creating them, waiting for them, running commands in them."""

import json
from collections.abc import Callable
from typing import Any

from hack.cluster.nodes.images import BUSYBOX
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS
from pinnace.volumes.node_agents import ROLE
from tests.support.waiting import eventually

START_TIMEOUT_SECONDS = 120.0
EXEC_TIMEOUT_SECONDS = 120.0
FOREVER = "trap exit TERM; while :; do sleep 3600 & wait $!; done"
"""A shell command that runs until SIGTERM, and then ends at once, unlike a bare `sleep`."""


def busybox_pod(
    name: str,
    command: str = FOREVER,
    *,
    mounts: dict[str, str] | None = None,
    volumes: list[JSONObject] | None = None,
    **spec: Any,
) -> JSONObject:
    """A pod of one container `main`, which runs a shell command in an image that every node has.

    Args:
        mounts: path in the container, by volume name.
        volumes: of the pod.
        spec: further fields of the pod's spec, as the API names them.
    """
    container: JSONObject = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", command],
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in (mounts or {}).items()],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "volumes": volumes or [],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "dnsPolicy": "Default",  # no cluster DNS here
            **spec,
        },
    }


async def add_ready_agent(client: KubeClient, namespace: str, name: str = "agent") -> None:
    """A pod as that of a ready node agent; the agents of the tests are processes beside the nodes."""
    pod = busybox_pod(name, schedulerName="nobody")
    pod["metadata"]["labels"] = dict(ROLE)
    await client.create(PODS, pod, namespace)
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(PODS, name, {"status": status}, namespace, subresource="status")


async def run_pod(client: KubeClient, namespace: str, pod: JSONObject) -> JSONObject:
    """Create a pod and return it once it is ready."""
    await client.create(PODS, pod, namespace)
    return await wait_ready(client, namespace, pod["metadata"]["name"])


async def wait_ready(
    client: KubeClient, namespace: str, name: str, *, timeout_seconds: float = START_TIMEOUT_SECONDS
) -> JSONObject:
    """Return a pod as soon as all its containers are ready."""

    def ready(pod: JSONObject) -> bool:
        conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions", [])}
        return conditions.get("Ready") == "True"

    return await _wait(client, namespace, name, ready, timeout_seconds)


async def wait_ended(
    client: KubeClient, namespace: str, name: str, *, timeout_seconds: float = START_TIMEOUT_SECONDS
) -> JSONObject:
    """Return a pod as soon as it has ended, in either way."""

    def ended(pod: JSONObject) -> bool:
        return pod["status"]["phase"] in ("Succeeded", "Failed")

    return await _wait(client, namespace, name, ended, timeout_seconds)


async def exec_in_pod(
    client: KubeClient, namespace: str, pod: str, *command: str, container: str = "main"
) -> str:
    """Run a command in a container and return its standard output; any exit code but 0 fails the test."""
    stdout, stderr = bytearray(), bytearray()
    code = await client.exec(
        namespace,
        pod,
        command,
        container=container,
        stdout=stdout.extend,
        stderr=stderr.extend,
        timeout_seconds=EXEC_TIMEOUT_SECONDS,
    )
    assert code == 0, f"{command} ended with {code}: {stderr.decode(errors='replace')}"
    return stdout.decode()


async def pod_log(client: KubeClient, namespace: str, pod: str, container: str = "main") -> str:
    """Return what a container has written so far."""
    path = PODS.path(namespace, pod, "log")
    return (await client.request("GET", path, params={"container": container}, accept="*/*")).decode()


async def _wait(
    client: KubeClient, namespace: str, name: str, done: Callable[[JSONObject], bool], timeout_seconds: float
) -> JSONObject:
    pod: JSONObject = {}

    async def asked() -> bool:
        nonlocal pod
        pod = await client.get(PODS, name, namespace)
        return done(pod)

    try:
        await eventually(asked, timeout_seconds=timeout_seconds)
    except AssertionError as error:
        events = await client.list_all(EVENTS, namespace)
        told = [event.get("message") for event in events if event["involvedObject"]["name"] == name]
        claims = {
            claim["metadata"]["name"]: (claim["spec"].get("volumeName"), claim.get("status"))
            for claim in await client.list_all(PERSISTENT_VOLUME_CLAIMS, namespace)
        }
        status = json.dumps(pod.get("status"))
        raise AssertionError(f"pod {name}: {error}: {status}, events: {told}, claims: {claims}") from None
    return pod
