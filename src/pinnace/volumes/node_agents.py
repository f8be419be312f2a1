"""Where node agents run, by the DaemonSet that runs them. (docs/spec: PVL 3, BEY 6.1)"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import DAEMON_SETS, PODS

NAMES: Final = ("node-agent", "restic")
"""Names of the DaemonSet: since Velero 1.10, and before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSet:
    """The DaemonSet of the node agents.

    Attributes:
        pod_labels: the labels that select its pods.
        arguments: of its container.
    """

    name: str
    pod_labels: Mapping[str, str]
    image: str = ""
    arguments: Sequence[str] = ()

    @classmethod
    def of(cls, daemon_set: JSONObject) -> "AgentSet":
        """The node agents that a DaemonSet describes."""
        containers = objects(daemon_set, "spec", "template", "spec", "containers")
        first = containers[0] if containers else {}
        return cls(
            name=daemon_set["metadata"]["name"],
            pod_labels=mapping(daemon_set, "spec", "selector", "matchLabels"),
            image=text(first, "image"),
            arguments=[str(each) for part in ("command", "args") for each in first.get(part) or ()],
        )


class NodeAgents:
    """Looks for the node agents of an installation.

    Args:
        namespace: the server's.
        fresh_seconds: how long an answer is reused; many volumes ask for the same.
    """

    def __init__(self, client: KubeClient, namespace: str, *, fresh_seconds: float = 0.0) -> None:
        self._client = client
        self._namespace = namespace
        self._fresh_seconds = fresh_seconds
        self._seen: tuple[float, AgentSet | None, list[JSONObject]] | None = None

    async def find(self) -> AgentSet | None:
        """The DaemonSet; None if there is none. Raises KubeError."""
        for name in NAMES:
            with suppress(NotFound):
                return AgentSet.of(await self._client.get(DAEMON_SETS, name, self._namespace))
        return None

    async def why_none_on(self, node: str, *, has_worked: bool = False) -> str:
        """Why no agent takes up the work of a node; empty if one is ready there. Raises KubeError.

        Args:
            has_worked: an agent has worked there. So if there is no DaemonSet, agents are started in another
                way, and it is not known which of them run.
        """
        found, pods = await self._look()
        if found is None and has_worked:
            return ""
        if found is None:
            return (
                f"no node agent runs on the node {node}, as the namespace {self._namespace} has no DaemonSet"
                f" {NAMES[0]}: install it (`pinnace install`, with --use-node-agent)"
            )
        here = [pod for pod in pods if text(pod, "spec", "nodeName") == node]
        if any(_is_ready(pod) for pod in here):
            return ""
        where = f"the DaemonSet {self._namespace}/{found.name}"
        if not here:
            return (
                f"no node agent runs on the node {node}: {where} has no pod there; see its node selector and"
                " tolerations"
            )
        pod = here[0]
        return (
            f"the node agent on the node {node} is not ready: see the pod"
            f" {self._namespace}/{pod['metadata']['name']} of {where}"
        )

    async def _look(self) -> tuple[AgentSet | None, list[JSONObject]]:
        """The DaemonSet and its pods."""
        now = asyncio.get_running_loop().time()
        if self._seen is not None and now - self._seen[0] < self._fresh_seconds:
            return self._seen[1:]
        found, pods = await self.find(), []
        if found is not None:
            selector = ",".join(f"{key}={value}" for key, value in found.pod_labels.items())
            pods = await self._client.list_all(PODS, self._namespace, label_selector=selector)
        self._seen = now, found, pods
        return found, pods


def _is_ready(pod: JSONObject) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in objects(pod, "status", "conditions")
    )
