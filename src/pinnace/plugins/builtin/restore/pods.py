"""Pods on their way into a cluster: ties to the old one are removed, claims are restored first.

(docs/spec: RST 16, 16.2)
"""

from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.plugins.builtin.priority_classes import priority_class_of
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)


class AddClaimsOfPod:
    """Has the claims a pod mounts restored before the pod, and the priority class that it names.

    A cluster without the class refuses the pod, also in a restore of one namespace. (docs/spec: BEY 4.10)
    """

    name = "velero.io/add-pvc-from-pod"

    async def applies_to(self) -> ResourceSelector:
        """Pods."""
        return ResourceSelector(included_resources=("pods",))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Leave the pod as it is, name its claims in the namespace they had in the backup, and its class."""
        namespace = text(given.item_from_backup, "metadata", "namespace")
        claims = [
            text(volume, "persistentVolumeClaim", "claimName")
            for volume in objects(given.item, "spec", "volumes")
        ]
        needed = [
            ResourceIdentifier(group="", resource="persistentvolumeclaims", namespace=namespace, name=claim)
            for claim in claims
            if claim
        ]
        needed += priority_class_of(given.item)
        return RestoreItemOutput(item=given.item, additional_items=needed)


class FreePod:
    """Frees a pod from its old node, priority value and token volume; the cluster gives it new ones."""

    name = "velero.io/pod"

    async def applies_to(self) -> ResourceSelector:
        """Pods."""
        return ResourceSelector(included_resources=("pods",))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Drop what admission set in the old cluster; `priorityClassName` stays."""
        spec = mapping(given.item, "spec")
        spec.pop("nodeName", None)
        spec.pop("priority", None)
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
