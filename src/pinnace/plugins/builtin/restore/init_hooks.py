"""Init containers that a restore adds to pods, from a pod's annotations or the Restore's hooks.

(docs/spec: RST 20, API 16.1, 16.2)
"""

import copy
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from pinnace.api import labels
from pinnace.api.kinds import PODS
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.pod_hooks import parse_command
from pinnace.api.velero.restore import RestoreHooks
from pinnace.hooks.restore_selection import HookSelector
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput

RESTIC_WAIT: Final = "restic-wait"
"""The container that waits for volume data; if it is first, it stays first."""
WAIT_CONTAINERS: Final = frozenset({RESTIC_WAIT, "restore-wait"})
"""Its names: pods that Velero 1.10 and later restored have the other one."""


def annotated_container(
    annotations: Mapping[str, str], new_uuid: Callable[[], uuid.UUID]
) -> JSONObject | None:
    """The container that a pod's annotations ask for; None without an image."""
    image = text(annotations, labels.INIT_RESTORE_HOOK_CONTAINER_IMAGE)
    if not image:
        return None
    name = text(annotations, labels.INIT_RESTORE_HOOK_CONTAINER_NAME)
    container: JSONObject = {
        "name": name or f"velero-restore-init-{str(new_uuid()).partition('-')[0]}",
        "image": image,
    }
    command = text(annotations, labels.INIT_RESTORE_HOOK_COMMAND)
    if command:
        # Without one, the image's entry point runs.
        container["command"] = parse_command(command)
    return container


def hook_containers(hooks: RestoreHooks, namespace: str, pod_labels: Mapping[str, str]) -> list[JSONObject]:
    """The containers of all groups that match, in the order of the spec, as they are written there.

    They are copies: later actions change the containers of a pod, which must not change the Restore.

    Raises:
        ValueError: a label selector is not valid.
    """
    return [
        copy.deepcopy(container)
        for group in hooks.resources
        if HookSelector(group).matches(namespace, pod_labels)
        for hook in group.post_hooks
        if hook.init is not None
        for container in hook.init.init_containers
    ]


def with_init_containers(existing: list[Any], added: list[JSONObject]) -> list[Any]:
    """The added containers before the pod's own, but behind a leading `restic-wait`."""
    first = existing[0] if existing else None
    waits = 1 if isinstance(first, dict) and first.get("name") in WAIT_CONTAINERS else 0
    return [*existing[:waits], *added, *existing[waits:]]


class AddInitContainers:
    """Adds init containers to pods. Selectors apply to the namespace that a pod is restored into."""

    name = "velero.io/init-restore-hook"

    def __init__(self, new_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> None:
        self._new_uuid = new_uuid

    async def applies_to(self) -> ResourceSelector:
        """Pods."""
        return ResourceSelector(included_resources=(PODS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Add the container of the annotations, or else those of the matching hooks.

        Raises:
            ValueError: a hook's label selector is not valid.
        """
        metadata = mapping(given.item, "metadata")
        annotated = annotated_container(mapping(metadata, "annotations"), self._new_uuid)
        if annotated is not None:
            added = [annotated]
        else:
            original = text(given.item_from_backup, "metadata", "namespace")
            namespace = given.restore.spec.namespace_mapping.get(original, original)
            added = hook_containers(given.restore.spec.hooks, namespace, mapping(metadata, "labels"))
        spec = given.item.get("spec")
        present = spec.get("initContainers") if isinstance(spec, dict) else ()
        if added and isinstance(spec, dict) and isinstance(present, list | None):
            spec["initContainers"] = with_init_containers(present or [], added)
        return RestoreItemOutput(item=given.item)
