"""Lets a controller take up what other agents of its node have left InProgress. (docs/adr/043)"""

from collections.abc import Callable
from typing import Protocol

from pinnace.api.objects import JSONObject
from pinnace.api.pod_hooks import is_ended
from pinnace.controllers.node.holding import pod_of_holder
from pinnace.controllers.node.parts import NodeParts
from pinnace.runtime.controller import Controller, KeyMapping, own_key
from pinnace.runtime.informer import Informer


class Successor(Protocol):
    """Tells which objects it may take up."""

    def is_left(self, obj: JSONObject) -> bool:
        """Whether another agent of this node has begun the work, and may have left it."""
        ...


def take_up_left(
    made: Controller, objects: Informer, successor: Successor, parts: NodeParts, keys: KeyMapping = own_key
) -> None:
    """Queue objects that other agents left: when the controller starts, and when the pod of one has ended."""
    made.watch(objects, keys=keys, predicate=successor.is_left)

    def agent_ended(pod: JSONObject) -> None:
        metadata = pod["metadata"]
        if metadata["namespace"] != parts.scope.namespace:
            return
        for obj in objects.objects():
            if successor.is_left(obj) and pod_of_holder(obj) == metadata["name"]:
                for key in keys(obj):
                    made.enqueue(key)

    parts.pods.add_handlers(on_update=_if_ended(agent_ended), on_delete=agent_ended)


def _if_ended(act: Callable[[JSONObject], None]) -> Callable[[JSONObject, JSONObject], None]:
    def changed(_old: JSONObject, new: JSONObject) -> None:
        if is_ended(new):
            act(new)

    return changed
