"""Pods on their way into a cluster: ties to the old one are removed, claims are restored first.

(docs/spec: RST 16, 16.2)
"""

from typing import Final

from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.plugins.builtin.pod_classes import classes_of
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)

_SET_LATER: Final = ("nodeName", "priority", "preemptionPolicy", "overhead", "ephemeralContainers")
"""Fields that are set while a pod is created or runs. A server refuses other values in a new pod."""


class AddClaimsOfPod:
    """Has the claims a pod mounts restored before the pod, and the classes that it names.

    A cluster without a class refuses the pod, also in a restore of one namespace. (docs/spec: BEY 4.10)
    """

    name = "velero.io/add-pvc-from-pod"

    async def applies_to(self) -> ResourceSelector:
        """Pods."""
        return ResourceSelector(included_resources=(PODS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Leave the pod as it is, name its claims, in their namespace in the backup, and its classes."""
        namespace = text(given.item_from_backup, "metadata", "namespace")
        claims = [
            text(volume, "persistentVolumeClaim", "claimName")
            for volume in objects(given.item, "spec", "volumes")
        ]
        needed = [
            ResourceIdentifier(
                group="", resource=PERSISTENT_VOLUME_CLAIMS.group_resource, namespace=namespace, name=claim
            )
            for claim in claims
            if claim
        ]
        needed += classes_of(given.item)
        return RestoreItemOutput(item=given.item, additional_items=needed)


class FreePod:
    """Frees a pod from its old node, token volume and values of classes; the cluster gives it new ones.

    Ephemeral containers for debugging go too: a new pod may have none.
    """

    name = "velero.io/pod"

    async def applies_to(self) -> ResourceSelector:
        """Pods."""
        return ResourceSelector(included_resources=(PODS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Drop what the old cluster set; `priorityClassName` and `runtimeClassName` stay."""
        spec = mapping(given.item, "spec")
        for field in _SET_LATER:
            spec.pop(field, None)
        prefix = text(spec, "serviceAccountName") + "-token-"
        _drop_named(spec, "volumes", prefix)
        for kind in ("containers", "initContainers"):
            for container in objects(spec, kind):
                _drop_named(container, "volumeMounts", prefix)
        return RestoreItemOutput(item=given.item)


def _drop_named(holder: JSONObject, field: str, prefix: str) -> None:
    if objects(holder, field):
        holder[field] = [
            entry
            for entry in holder[field]
            if not (isinstance(entry, dict) and text(entry, "name").startswith(prefix))
        ]
