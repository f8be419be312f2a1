"""Restored pods as a real API server shows them, and its answers to commands. No pod runs here."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import orjson
import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import CutBody, watch_expired
from hack.cluster.proxy import FaultProxy
from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import (
    ExecRestoreHook,
    RestoreHooks,
    RestoreResourceHook,
    RestoreResourceHookSpec,
)
from pinnace.archive.runlog import RunLog
from pinnace.hooks.pod_watches import PodWatches
from pinnace.hooks.restore_running import PodExecHooks
from pinnace.hooks.restore_selection import ExecHookFinder
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import PODS
from pinnace.kube.transport.credentials import Impersonation
from tests.support.cluster.connect import Connect
from tests.support.waiting import eventually

StartProxy = Callable[[ControlPlane], Awaitable[FaultProxy]]

RESTORE = {labels.RESTORE_NAME: "r1"}


def a_pod(name: str, **metadata: Any) -> JSONObject:
    container = {"name": "app", "image": "none", "imagePullPolicy": "Never"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": RESTORE, **metadata},
        "spec": {"containers": [container]},
    }


def running() -> JSONObject:
    """As a kubelet would report it."""
    state = {"running": {"startedAt": "2021-08-11T21:43:26Z"}}
    container = {
        "name": "app",
        "image": "none",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": state,
    }
    return {"status": {"phase": "Running", "containerStatuses": [container]}}


class Seen:
    """The events that an observer got."""

    def __init__(self) -> None:
        self.states: list[str] = []

    def __call__(self, pod: JSONObject | None) -> None:
        self.states.append("gone" if pod is None else pod["status"]["phase"])

    async def last(self, state: str) -> None:
        async def is_last() -> bool:
            return self.states[-1:] == [state]

        await eventually(is_last)


async def test_two_pods_of_a_namespace_share_a_watch_that_ends_with_them(
    control_plane: ControlPlane, connect: Connect, fault_proxy: StartProxy, namespace: str
) -> None:
    proxy = await fault_proxy(control_plane)
    client = await connect(control_plane, via=proxy)
    one, two = [await client.create(PODS, a_pod(name), namespace) for name in ("one", "two")]
    await client.create(PODS, a_pod("foreign", labels={}), namespace)
    watches, seen = PodWatches(client), (Seen(), Seen())
    async with watches.following(one, seen[0]), watches.following(two, seen[1]):
        await seen[1].last("Pending")
        await client.patch(PODS, "two", running(), namespace, subresource="status")
        await seen[1].last("Running")
        await client.delete(PODS, "one", namespace)
        await seen[0].last("gone")
    assert seen[1].states[-1] == "Running"
    (opened,) = [each.head.query for each in proxy.exchanges if "watch" in each.head.query]
    assert opened["labelSelector"] == "velero.io/restore-name=r1"


async def test_a_watch_that_breaks_continues(
    control_plane: ControlPlane, connect: Connect, fault_proxy: StartProxy, namespace: str
) -> None:
    proxy = await fault_proxy(control_plane)
    broken = proxy.rules.add(CutBody(after_bytes=0), query={"watch": "1"}, times=1)
    expired = proxy.rules.add(watch_expired(), query={"watch": "1"}, times=1)
    client = await connect(control_plane, via=proxy)
    pod = await client.create(PODS, a_pod("one"), namespace)
    seen = Seen()
    async with PodWatches(client).following(pod, seen):
        await seen.last("Pending")
        await client.patch(PODS, "one", running(), namespace, subresource="status")
        await seen.last("Running")
    assert (broken.hits, expired.hits) == (1, 1)
    assert "gone" not in seen.states


async def test_look_returns_a_pod_or_none_if_it_is_gone(client: KubeClient, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("one"), namespace)
    watches = PodWatches(client)
    found = await watches.look(pod)
    assert found is not None
    assert found["metadata"]["uid"] == pod["metadata"]["uid"]
    await client.delete(PODS, "one", namespace)
    assert await watches.look(pod) is None


async def run_in(client: KubeClient, namespace: str, pod: str) -> int:
    return await client.exec(
        namespace,
        pod,
        ["x"],
        container="app",
        stdout=lambda _: None,
        stderr=lambda _: None,
        timeout_seconds=120,
    )


async def test_what_the_server_says_of_pods_in_which_nothing_can_run(
    client: KubeClient, namespace: str
) -> None:
    with pytest.raises(NotFound, match='pods "nosuch" not found'):
        await run_in(client, namespace, "nosuch")
    await client.create(PODS, a_pod("one"), namespace)
    with pytest.raises(KubeError, match="does not have a host assigned"):
        await run_in(client, namespace, "one")


async def test_a_hook_waits_for_a_container_and_reports_that_it_cannot_run_in_it(
    client: KubeClient, namespace: str
) -> None:
    pod = await client.create(PODS, a_pod("one"), namespace)
    hook = RestoreResourceHook(exec=ExecRestoreHook(command=["x"], on_error="Fail"))
    group = RestoreResourceHookSpec(name="h", post_hooks=[hook])
    hooks = ExecHookFinder(RestoreHooks(resources=[group])).hooks_of(pod)
    work = asyncio.create_task(PodExecHooks.of(client).run(pod, hooks, RunLog(None, fields={})))
    await client.patch(PODS, "one", running(), namespace, subresource="status")
    (error,) = await work
    assert error.startswith(f"pod {namespace}/one: Hook h in container app failed: ")
    assert "does not have a host assigned" in error


@pytest.mark.parametrize(
    ("verbs", "answer"), [(["get", "create"], "does not have a host assigned"), ([], r'resource "pods/exec"')]
)
async def test_a_command_needs_rights_on_pods_exec(
    control_plane: ControlPlane, client: KubeClient, namespace: str, verbs: list[str], answer: str
) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}] if verbs else []
    role = {"metadata": {"name": "exec"}, "rules": rules}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "exec"}
    binding = {"metadata": {"name": "exec"}, "subjects": [user], "roleRef": reference}
    for plural, body in (("roles", role), ("rolebindings", binding)):
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{plural}"
        await client.request("POST", path, body=orjson.dumps(body))
    await client.create(PODS, a_pod("one"), namespace)
    config = load_config(str(control_plane.kubeconfig))
    as_jane = msgspec.structs.replace(config, impersonation=Impersonation(user="jane"))
    async with KubeClient(as_jane) as jane:
        with pytest.raises(KubeError, match=answer):
            await run_in(jane, namespace, "one")
