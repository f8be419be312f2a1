"""Which agent holds an object that is InProgress, and how often its work was begun. (docs/adr/043)

An agent writes its name into each object that it claims: the host name, which is the name of its pod, and a
number of its own process. An object with another name was left by a former agent of the node, unless the pod
of that name still runs: then the object is not touched until that pod has ended. The end of the work is
stored only by the agent whose name stands in the object.
"""

from collections.abc import Mapping
from typing import Final

from pinnace.api import phases
from pinnace.api.objects import JSONObject, mapping
from pinnace.api.phases import TransferPhase
from pinnace.api.pod_hooks import is_ended
from pinnace.api.values.digits import is_digits
from pinnace.controllers.node.scope import NodeScope
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PODS
from pinnace.runtime.durable import Guard, Storing
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.outcomes import phase_of

log = get_logger(__name__)

NODE_ANNOTATION: Final = "pinnace.io/node"
"""The node whose agent has claimed the object. The pod would tell it too, but may be gone."""
AGENT_ANNOTATION: Final = "pinnace.io/agent"
ATTEMPTS_ANNOTATION: Final = "pinnace.io/attempts"
"""How often the work was begun."""

MAX_ATTEMPTS: Final = 5
"""One object must not end the agent of its node for ever, for example by the memory that it takes."""


class Holding:
    """Tells which agent holds an object, and marks those of the agent of a scope."""

    def __init__(self, scope: NodeScope) -> None:
        self._scope = scope
        self._name = str(scope.agent)

    def marks(self, obj: JSONObject) -> dict[str, str]:
        """The annotations of an object that this agent claims now."""
        return {
            NODE_ANNOTATION: self._scope.node,
            AGENT_ANNOTATION: self._name,
            ATTEMPTS_ANNOTATION: str(attempts_of(obj) + 1),
        }

    def is_left(self, obj: JSONObject) -> bool:
        """Whether another agent of this node has claimed the object and not ended it."""
        return (
            phase_of(obj) == TransferPhase.IN_PROGRESS
            and _annotation(obj, NODE_ANNOTATION) == self._scope.node
            and holder_of(obj) not in ("", self._name)
        )

    async def has_ended(self, pod: str) -> bool:
        """Whether an agent of that name has ended, as its pod has. Raises KubeError."""
        if pod == self._scope.agent.pod:
            return True
        try:
            return is_ended(await self._scope.client.get(PODS, pod, self._scope.namespace))
        except NotFound:
            return True

    def guard(self, uid: str, patch: JSONObject, *, holder: str = "") -> Guard:
        """Lets a patch be written, unless the object has ended, is another one or is held by another agent.

        Args:
            holder: the agent that left the object; empty for this one.
        """

        def check(obj: JSONObject) -> Storing | None:
            if may_change(obj, uid, holder or self._name):
                return None
            if _has(obj, uid, mapping(patch, "status")):
                return Storing.STORED  # the answer of an earlier request was lost
            log.warning("The object has ended or is held by another agent", key=str(Key.of(obj)))
            return Storing.NOT_OURS

        return check


def may_change(obj: JSONObject, uid: str, holder: str) -> bool:
    """Whether an object has not ended, and this agent or none holds it. Pure."""
    return (
        obj["metadata"]["uid"] == uid
        and phase_of(obj) not in phases.TRANSFER_ENDED
        and holder_of(obj) in ("", holder)
    )


def _has(obj: JSONObject, uid: str, status: JSONObject) -> bool:
    """Whether an object has ended as this status says."""
    found = mapping(obj, "status")
    same = all(found.get(name) == status.get(name) for name in ("phase", "snapshotID"))
    return obj["metadata"]["uid"] == uid and same


def holder_of(obj: JSONObject) -> str:
    """The agent whose name stands in an object; empty for those of Velero."""
    return _annotation(obj, AGENT_ANNOTATION)


def pod_of_holder(obj: JSONObject) -> str:
    """The pod of that agent."""
    return holder_of(obj).rpartition("/")[0]


def attempts_of(obj: JSONObject) -> int:
    """How often the work on an object was begun."""
    noted = _annotation(obj, ATTEMPTS_ANNOTATION)
    return int(noted) if is_digits(noted) and len(noted) < 5 else 0


def was_begun_before(annotations: Mapping[str, str]) -> bool:
    """Whether the work on a claimed object with these annotations was begun before its present attempt."""
    return annotations.get(ATTEMPTS_ANNOTATION) != "1"


def _annotation(obj: JSONObject, name: str) -> str:
    return str(mapping(obj, "metadata", "annotations").get(name) or "")
