"""Watches restored pods that wait for their data: logs obstacles; permanent ones end the wait early.

The agent of a pod's node fills its volumes once the pod runs there. No agent could report anything about a
pod that does not run on a node, so the server watches it: temporary obstacles are in the server's log and in
the status of the pod's PodVolumeRestores, and permanent ones fail these, so that the restore does not wait
until its timeout. For the same reason the server ends what is canceled before an agent has it.
A pod that does not go on although its volumes have their data is an error of the restore too.
(docs/spec: PVL 12.2, RST 19)
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pinnace.aio.timing import poll, wait_for
from pinnace.api import phases
from pinnace.api.objects import JSONObject, objects, text
from pinnace.api.phases import TransferPhase
from pinnace.api.pod_hooks import is_ended
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.values.times import format_time
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.unattended import Unattended
from pinnace.controllers.shared.waiting_pods import (
    POD_INDEX,
    WAIT_CONTAINER,
    has_waited,
    is_ending,
    is_wait_container,
    is_waiting,
    pod_gone,
    wait_state,
)
from pinnace.hooks.pod_watches import PodListener
from pinnace.kube.errors import Conflict, KubeError, NotFound
from pinnace.kube.resources import POD_VOLUME_RESTORES
from pinnace.restore.collaborators import PodVolumeRestorer
from pinnace.runtime.informer import Informer
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.outcomes import canceled_message, is_cancel_wanted, is_new, message_of, phase_of
from pinnace.volumes.pods.pod_volume_restores import TIMED_OUT

log = get_logger(__name__)


LOOK_SECONDS: Final = 60.0
"""How often a pod is looked at apart from its watch."""
RETRY_SECONDS: Final = 2.0
"""How often PodVolumeRestores of a lost pod are failed: some may not exist yet, or change at that moment."""
AGENT_SECONDS: Final = 30.0
"""How long the agent of a lost pod has to end its work; after that it counts as gone too."""

HELPER_SECONDS: Final = 60.0
"""How long the container that waits has to see that its volumes have their data; it looks every second."""

START_SECONDS: Final = 600.0
"""How long the container that waits may be unable to start: its kubelet tries again every five minutes."""

_NEVER: Final = frozenset({"ErrImageNeverPull", "InvalidImageName"})
"""Reasons why a container does not start that no other try changes."""
_REMOVED: Final = "an admission webhook of the cluster may have removed it"
_USUAL_WAITS: Final = frozenset({"PodInitializing", "ContainerCreating"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """The obstacle between a pod and its data.

    Attributes:
        lost: whether it is permanent.
        keeps_from_start: whether it counts as permanent if it is still there after `START_SECONDS`.
    """

    text: str
    lost: bool = False
    keeps_from_start: bool = False


def trouble_of(pod: JSONObject | None, created: JSONObject) -> Obstacle | None:
    """The trouble of a pod; None if there is none. Pure.

    Args:
        pod: the one that has the name now; None if there is none.
        created: as the restore made it.
    """
    metadata = created["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    if pod is None or pod["metadata"].get("uid") != metadata["uid"] or is_ending(pod):
        return Obstacle(text=pod_gone(metadata["namespace"], metadata["name"]), lost=True)
    status = pod.get("status") or {}
    if is_ended(pod):
        ended = f"the pod {name} ended before its volume was restored: {_reason(status, status['phase'])}"
        return Obstacle(text=ended, lost=True)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return Obstacle(text=f"the pod {name} is not scheduled: {_reason(condition)}")
    if not any(is_wait_container(each) for each in objects(pod, "spec", "initContainers")):
        return Obstacle(text=f"the pod {name} has no init container {WAIT_CONTAINER}: {_REMOVED}", lost=True)
    waiting = wait_state(pod).get("waiting") or {}
    reason = waiting.get("reason", "PodInitializing")
    if reason not in _USUAL_WAITS:
        told = f"{WAIT_CONTAINER} of the pod {name} does not start: {_reason(waiting)}"
        return Obstacle(text=told, lost=reason in _NEVER, keeps_from_start=True)
    return None


def _reason(said: JSONObject, *first: str) -> str:
    return ": ".join(filter(None, (*first, said.get("reason"), said.get("message")))) or "no reason was given"


def keeps_waiting(pod: JSONObject | None, created: JSONObject) -> str:
    """Why the container that waits has not ended well; empty if it has, or if nothing is known of it. Pure.

    A pod that is deleted is not waited for: its volumes have had their data.

    Args:
        pod: the one that has the name now; None if there is none.
        created: as the restore made it.
    """
    if pod is None or pod["metadata"].get("uid") != created["metadata"]["uid"] or is_ending(pod):
        return ""
    state = wait_state(pod)
    if not state or has_waited(pod):
        return ""
    if is_ended(pod):
        return _reason(pod["status"], pod["status"]["phase"])
    if state.get("running") is not None:
        return f"it still runs after {HELPER_SECONDS:g} seconds"
    return _reason(state.get("terminated") or state.get("waiting") or {})


class RestoredPods:
    """Restores pod volumes by another `PodVolumeRestorer`, and watches the pods meanwhile.

    Args:
        restores: makes the PodVolumeRestores and waits until they have ended.
        informer: of the PodVolumeRestores of the restore, with the index of pods.
        pods: reads and follows the pods.
    """

    def __init__(
        self, scope: Scope, restores: PodVolumeRestorer, informer: Informer, pods: PodListener
    ) -> None:
        self._scope = scope
        self._restores = restores
        self._informer = informer
        self._pods = pods
        self._unattended = Unattended(scope, POD_VOLUME_RESTORES)
        self._watches: dict[str, _PodWatch] = {}

    def changed(self, pod_volume: JSONObject) -> None:
        """Act on a change of a PodVolumeRestore; a handler of its informer."""
        watch = self._watches.get(text(pod_volume, "spec", "pod", "uid"))
        if watch is None or not is_new(pod_volume):
            return
        if is_cancel_wanted(pod_volume) or not message_of(pod_volume):
            watch.wake()

    async def restore_pod_volumes(
        self, pod: JSONObject, original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> list[str]:
        """Restore and wait; return the errors, with what the pod waits for if the time is up.

        A pod whose volumes all have their data must go on; one that does not is an error, too.
        """
        watch = _PodWatch(self._scope, self._informer, self._pods, self._unattended, pod=pod)
        self._watches[pod["metadata"]["uid"]] = watch
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(watch.run())
                errors = await self._restores.restore_pod_volumes(pod, original_namespace, snapshots)
                if not errors and (stuck := await watch.stuck()):
                    errors = [stuck]
                watching.cancel()
        finally:
            del self._watches[pod["metadata"]["uid"]]
        return [f"{error}: {watch.waits_for()}" if error == TIMED_OUT else error for error in errors]


class _PodWatch:
    """Watches one pod, until cancelled."""

    def __init__(
        self, scope: Scope, informer: Informer, pods: PodListener, unattended: Unattended, *, pod: JSONObject
    ) -> None:
        self._scope = scope
        self._informer = informer
        self._pods = pods
        self._unattended = unattended
        self._created = pod
        self._state: JSONObject | None = pod
        self._news = asyncio.Event()
        self._told: Obstacle | None = None
        self._explained = ""
        self._lost_at: float | None = None
        self._unstarted_since: float | None = None

    async def run(self) -> None:
        """Log each new trouble; fail the PodVolumeRestores of a pod that is lost."""
        async with self._pods.following(self._created, self._observe):
            await self._look()
            while True:
                self._news.clear()
                await self._end_canceled()
                trouble = self._tell()
                is_late = self._is_late(trouble)
                if trouble is not None and (trouble.lost or is_late):
                    await self._fail_all(trouble.text)
                    await self._scope.clock.sleep(RETRY_SECONDS)
                    continue
                await self._explain(trouble.text if trouble is not None else "")
                if not await wait_for(self._news, clock=self._scope.clock, timeout_seconds=LOOK_SECONDS):
                    await self._look()
                    await self._look_for_agent()

    def _is_late(self, trouble: Obstacle | None) -> bool:
        """Whether the pod has been kept from its start for too long; called with each trouble, or none."""
        now = self._scope.clock.monotonic()
        if trouble is None or not trouble.keeps_from_start:
            self._unstarted_since = None
            return False
        if self._unstarted_since is None:
            self._unstarted_since = now
        return now - self._unstarted_since >= START_SECONDS

    def wake(self) -> None:
        """Look at the PodVolumeRestores of the pod now."""
        self._news.set()

    def waits_for(self) -> str:
        """The reason why the pod and its PodVolumeRestores wait, in words."""
        if (trouble := trouble_of(self._state, self._created)) is not None:
            return trouble.text
        metadata = self._created["metadata"]
        node = ((self._state or {}).get("spec") or {}).get("nodeName", "")
        waits = ", ".join(
            f"{pod_volume['spec']['volume']} ({phase_of(pod_volume) or TransferPhase.NEW})"
            for pod_volume in self._pod_volume_restores()
            if phase_of(pod_volume) not in phases.TRANSFER_ENDED
        )
        waits_for = f"the pod {metadata['namespace']}/{metadata['name']} waits on node {node!r} for"
        told = next(
            (message_of(pod_volume) for pod_volume in self._pod_volume_restores() if is_new(pod_volume)), ""
        )
        why = told or "no agent has taken up those that are New: check that a node agent runs there"
        return f"{waits_for} {waits or 'its PodVolumeRestores'}; {why}"

    async def stuck(self) -> str:
        """Wait until the pod goes on; what keeps it if it does not, empty if it does."""

        async def goes_on() -> bool:
            return not keeps_waiting(self._state, self._created) or is_ended(self._state or {})

        await self._look()  # the watch may be late, here and in the end
        await poll(goes_on, clock=self._scope.clock, timeout_seconds=HELPER_SECONDS)
        if not keeps_waiting(self._state, self._created):
            return ""
        await self._look()
        reason = keeps_waiting(self._state, self._created)
        if not reason:
            return ""
        try:
            said = await self._pods.last_line(self._created, WAIT_CONTAINER)
        except KubeError as error:
            said = f"its log cannot be read: {error}"
        metadata = self._created["metadata"]
        return (
            f"the pod {metadata['namespace']}/{metadata['name']} does not start: its volumes have their data,"
            f" but {WAIT_CONTAINER} has not ended well: {reason}; its last line: {said or 'none'}. It must be"
            " able to enter the root directory of each volume: name a user that can in the key secCtx of its"
            " ConfigMap, delete the pod, and restore it again"
        )

    def _tell(self) -> Obstacle | None:
        trouble = trouble_of(self._state, self._created)
        if trouble is not None and trouble != self._told:
            log.warning("A restored pod waits for its volumes", reason=trouble.text)
        self._told = trouble
        return trouble

    async def _look(self) -> None:
        try:
            self._state = await self._pods.look(self._created)
        except KubeError as error:
            log.warning("Cannot look at a pod that waits for its volumes", error=error)

    async def _look_for_agent(self) -> None:
        """If only an agent is missing, say so in the PodVolumeRestores, and fail them in the end."""
        state = self._state
        if state is not None and is_waiting(state) and trouble_of(state, self._created) is None:
            node = text(state, "spec", "nodeName")
            await self._unattended.look([(pod_volume, node) for pod_volume in self._pod_volume_restores()])

    def _observe(self, state: JSONObject | None) -> None:
        self._state = state
        self._news.set()

    def _pod_volume_restores(self) -> list[JSONObject]:
        return self._informer.by_index(POD_INDEX, self._created["metadata"]["uid"])

    async def _fail_all(self, message: str) -> None:
        """Fail the PodVolumeRestores that no agent works on. A running agent gives its own up itself."""
        now = self._scope.clock.monotonic()
        self._lost_at = now if self._lost_at is None else self._lost_at
        for pod_volume in self._pod_volume_restores():
            phase = phase_of(pod_volume)
            left_to_agent = phase == TransferPhase.IN_PROGRESS and now - self._lost_at < AGENT_SECONDS
            if phase not in phases.TRANSFER_ENDED and not left_to_agent:
                await self._end(pod_volume, TransferPhase.FAILED, message)

    async def _explain(self, reason: str) -> None:
        """Say in the PodVolumeRestores what the pod waits for; an empty reason takes back what was said."""
        before, self._explained = self._explained, reason
        for pod_volume in self._pod_volume_restores():
            said = message_of(pod_volume)
            if is_new(pod_volume) and said != reason and (reason or said == before):
                await self._patch(pod_volume, {"message": reason})

    async def _end_canceled(self) -> None:
        """End the PodVolumeRestores that are canceled and that no agent has taken up: none ever may."""
        for pod_volume in self._pod_volume_restores():
            if is_new(pod_volume) and is_cancel_wanted(pod_volume):
                await self._end(pod_volume, TransferPhase.CANCELED, canceled_message(pod_volume))

    async def _end(self, pod_volume: JSONObject, phase: TransferPhase, message: str) -> None:
        completed = format_time(self._scope.clock.now())
        await self._patch(
            pod_volume, {"phase": str(phase), "message": message, "completionTimestamp": completed}
        )

    async def _patch(self, pod_volume: JSONObject, status: JSONObject) -> None:
        metadata = pod_volume["metadata"]
        # An agent that takes it at this moment wins.
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        try:
            await self._scope.client.patch(
                POD_VOLUME_RESTORES, metadata["name"], patch, metadata["namespace"]
            )
        except (Conflict, NotFound):
            return  # the cache will show its present state
        except KubeError as error:
            log.warning("The status of a PodVolumeRestore cannot be written yet", status=status, error=error)
