"""PodVolumeBackups and PodVolumeRestores without a node agent: their status says why; they fail in the end.

These are objects that no agent takes up, and objects whose agent ended while it worked on them. An agent that
is busy or restarts is waited for; the time counts only while a node has no agent that is ready. (docs/spec:
BEY 6.4)
"""

from collections.abc import Iterable
from typing import Final

from pinnace.api import phases
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import TransferPhase
from pinnace.api.values.times import format_time
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import Conflict, KubeError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.runtime.informer import Informer
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.node_agents import NodeAgents
from pinnace.volumes.outcomes import is_new, phase_of

log = get_logger(__name__)

LOOK_SECONDS: Final = 60.0
PREPARING_SECONDS: Final = 1800.0
"""How long a node may be without an agent while work waits for one; Velero's preparing timeout."""


class Unattended:
    """Explains and fails objects of one backup or restore that wait for an agent.

    Args:
        resource: PodVolumeBackups or PodVolumeRestores.
    """

    def __init__(self, scope: Scope, resource: APIResource) -> None:
        self._scope = scope
        self._resource = resource
        self._agents = NodeAgents(scope.client, scope.namespace)
        self._known: dict[tuple[str, bool], tuple[float, str]] = {}
        self._missing_since: dict[tuple[str, bool], float] = {}

    async def watch(self, pod_volumes: Informer) -> None:
        """Look at the PodVolumeBackups of a backup every minute, until cancelled."""
        while True:
            await self._scope.clock.sleep(LOOK_SECONDS)
            await self.look(
                (pod_volume, text(pod_volume, "spec", "node")) for pod_volume in pod_volumes.objects()
            )

    async def look(self, pod_volumes: Iterable[tuple[JSONObject, str]]) -> None:
        """Explain, and in the end fail, those of these objects that wait for the agent of a node without one.

        Args:
            pod_volumes: each with the node whose agent should take it up.
        """
        for pod_volume, node in pod_volumes:
            if not node or phase_of(pod_volume) in phases.TRANSFER_ENDED:
                continue
            has_begun = not is_new(pod_volume)
            try:
                reason = await self._reason(node, has_begun=has_begun)
                if reason:
                    await self._explain(pod_volume, reason, since=self._missing_since[node, has_begun])
            except (Conflict, NotFound):
                continue  # an agent has taken it, or it is gone
            except KubeError as error:
                log.warning("Cannot look for the node agent of a volume", node=node, error=error)

    async def _reason(self, node: str, *, has_begun: bool) -> str:
        now, asked_for = self._scope.clock.monotonic(), (node, has_begun)
        asked, reason = self._known.get(asked_for, (0.0, ""))
        if asked_for not in self._known or now - asked >= LOOK_SECONDS:
            reason = await self._agents.why_none_on(node, has_worked=has_begun)
            self._known[asked_for] = now, reason
            if reason:
                self._missing_since.setdefault(asked_for, now)
                log.warning("Volumes wait for a node agent", node=node, reason=reason)
            else:
                self._missing_since.pop(asked_for, None)
        return reason

    async def _explain(self, pod_volume: JSONObject, reason: str, *, since: float) -> None:
        metadata = pod_volume["metadata"]
        status: JSONObject = {"message": reason}
        if self._scope.clock.monotonic() - since >= PREPARING_SECONDS:
            what = "took it up" if is_new(pod_volume) else "went on with it"
            status |= {
                "phase": str(TransferPhase.FAILED),
                "message": f"no node agent {what} within {PREPARING_SECONDS / 60:g} minutes: {reason}",
                "completionTimestamp": format_time(self._scope.clock.now()),
            }
        elif text(pod_volume, "status", "message") == reason:
            return
        # An agent that takes it at this moment wins.
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        await self._scope.client.patch(self._resource, metadata["name"], patch, metadata["namespace"])
