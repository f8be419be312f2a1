"""Lets a controller take up what other agents of its node have left InProgress. (docs/adr/043)"""

from collections.abc import Callable
from typing import Protocol

from pinnace.api.objects import JSONObject
from pinnace.api.pod_hooks import is_ended
from pinnace.controllers.node.holding import pod_of_holder
from pinnace.controllers.node.parts import NodeParts
from pinnace.runtime.controller import Controller, KeyMapping, own_key
from pinnace.runtime.informer import Informer


class Worker(Protocol):
    """Works on objects, and tells which ones it may take up."""

    def changed(self, obj: JSONObject) -> None:
        """Learn of a change of an object."""
        ...

    def deleted(self, obj: JSONObject) -> None:
        """Learn that an object is gone."""
        ...

    def is_left(self, obj: JSONObject) -> bool:
        """Whether another agent of this node has begun the work, and may have left it."""
        ...


def watch_work(
    made: Controller,
    objects: Informer,
    worker: Worker,
    parts: NodeParts,
    *,
    is_wanted: Callable[[JSONObject], bool],
    keys: KeyMapping = own_key,
) -> None:
    """Queue the objects that are wanted, and tell the worker of what becomes of them.

    Objects that other agents left are queued, too: at the start, and when the pod of such an agent has ended.
    """
    made.watch(objects, keys=keys, predicate=is_wanted)
    objects.add_handlers(on_update=lambda _old, new: worker.changed(new), on_delete=worker.deleted)
    made.watch(objects, keys=keys, predicate=worker.is_left)

    def agent_ended(pod: JSONObject) -> None:
        metadata = pod["metadata"]
        if metadata["namespace"] != parts.scope.namespace:
            return
        for obj in objects.objects():
            if worker.is_left(obj) and pod_of_holder(obj) == metadata["name"]:
                for key in keys(obj):
                    made.enqueue(key)

    parts.pods.add_handlers(on_update=_if_ended(agent_ended), on_delete=agent_ended)


def _if_ended(act: Callable[[JSONObject], None]) -> Callable[[JSONObject, JSONObject], None]:
    def changed(_old: JSONObject, new: JSONObject) -> None:
        if is_ended(new):
            act(new)

    return changed
