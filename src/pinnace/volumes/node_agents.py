"""Where node agents run: pods of their DaemonSet, or with their label. (docs/spec: PVL 3, BEY 6.1)"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import DAEMON_SETS, DEPLOYMENTS, PODS
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice

SERVER: Final = "velero"
"""The Deployment of the server."""
NODE_AGENT: Final = "node-agent"
FORMER_NODE_AGENT: Final = "restic"
NAMES: Final = (NODE_AGENT, FORMER_NODE_AGENT)
"""Names of the DaemonSet: since Velero 1.10, and before."""
ROLE: Final[Mapping[str, str]] = {"role": NODE_AGENT}
"""The label of an agent's pod, as Velero and `install` set it; so are agents found that have no DaemonSet."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAgents:
    """The node agents of an installation at one moment.

    Attributes:
        daemon_set: None if there is none.
        pods: of the agents, ready or not.
    """

    daemon_set: AgentSet | None
    pods: Sequence[JSONObject]

    def ready(self) -> dict[str, JSONObject]:
        """The agents that are ready, by node."""
        return {text(pod, "spec", "nodeName"): pod for pod in self.pods if _is_ready(pod)}

    def ready_on(self) -> set[str]:
        """The nodes with an agent that is ready."""
        return set(self.ready())


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
        self._seen: tuple[float, SeenAgents] | None = None

    async def find(self) -> AgentSet | None:
        """The DaemonSet; None if there is none. Raises KubeError."""
        for name in NAMES:
            with suppress(NotFound):
                return AgentSet.of(await self._client.get(DAEMON_SETS, name, self._namespace))
        return None

    async def why_none(self) -> Notice | None:
        """Why no agent is ready on any node; None if one is. Raises KubeError."""
        seen = await self.look()
        if seen.ready_on():
            return None
        if seen.daemon_set is None and not seen.pods:
            return Notice(Code.AGENTS_NOT_INSTALLED, self._not_installed())
        if not seen.pods:
            return Notice(
                Code.AGENTS_MISSING,
                f"{self._place_of(seen)} has no pod on any node; see its node selector and tolerations",
            )
        return Notice(Code.AGENTS_MISSING, f"none of the pods of {self._place_of(seen)} is ready")

    async def why_none_on(self, node: str, *, has_worked: bool = False) -> str:
        """Why no agent takes up the work of a node; empty if one is ready there. Raises KubeError.

        Args:
            has_worked: an agent has worked there. So if there is no DaemonSet, agents are started in another
                way, and it is not known which of them run.
        """
        seen = await self.look()
        if node in seen.ready_on():
            return ""
        here = [pod for pod in seen.pods if text(pod, "spec", "nodeName") == node]
        if here:
            pod = f"{self._namespace}/{here[0]['metadata']['name']}"
            return (
                f"the node agent on the node {node} is not ready: see the pod {pod} of {self._place_of(seen)}"
            )
        if seen.daemon_set is None:
            return "" if has_worked else f"no node agent runs on the node {node}, as {self._not_installed()}"
        return (
            f"no node agent runs on the node {node}: {self._place_of(seen)} has no pod there; see its node"
            " selector and tolerations"
        )

    def _not_installed(self) -> str:
        return (
            f"the namespace {self._namespace} has no DaemonSet {NODE_AGENT}: install it (`pinnace install`,"
            " with --use-node-agent)"
        )

    def _place_of(self, seen: SeenAgents) -> str:
        if seen.daemon_set is None:
            return f"the node agents in the namespace {self._namespace}"
        return f"the DaemonSet {self._namespace}/{seen.daemon_set.name}"

    async def look(self) -> SeenAgents:
        """The agents, seen now or not longer ago than `fresh_seconds`. Raises KubeError."""
        now = asyncio.get_running_loop().time()
        if self._seen is not None and now - self._seen[0] < self._fresh_seconds:
            return self._seen[1]
        found = await self.find()
        marks = (found.pod_labels if found is not None else None) or ROLE  # it may have expressions only
        selector = ",".join(f"{key}={value}" for key, value in marks.items())
        pods = await self._client.list_all(PODS, self._namespace, label_selector=selector)
        seen = SeenAgents(daemon_set=found, pods=pods)
        self._seen = now, seen
        return seen


async def server_image(client: KubeClient, namespace: str, agents: AgentSet | None) -> str:
    """The image for the pods that only mount volumes; empty if nothing in the namespace says what it is.

    Args:
        namespace: the server's. A Deployment there may say another image than the agents'.

    Raises:
        KubeError
    """
    image = agents.image if agents is not None else ""
    with suppress(NotFound):
        server = await client.get(DEPLOYMENTS, SERVER, namespace)
        containers = objects(server, "spec", "template", "spec", "containers")
        image = next((text(each, "image") for each in containers), "") or image
    return image


def why_no_image(namespace: str) -> str:
    """The reason, where `server_image` is empty."""
    return (
        f"no Deployment {SERVER} and no DaemonSet {NODE_AGENT} in {namespace} says what image the pod that"
        " mounts the volume should have"
    )


def _is_ready(pod: JSONObject) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in objects(pod, "status", "conditions")
    )
