"""`velero.io/pod`: a pod brings the claims of its volumes and its classes.

(docs/spec: BKP 8.3, BEY 4.10)
"""

from collections.abc import Sequence

from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.plugins.builtin.pod_classes import classes_of, may_name_classes
from pinnace.plugins.protocols import ResourceIdentifier, ResourceSelector


class PodAction:
    """Names the PersistentVolumeClaims that a pod mounts; generic ephemeral volumes are not looked at.

    And its PriorityClass and RuntimeClass: a cluster without them refuses the pod.
    """

    name = "velero.io/pod"

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=(PODS.group_resource,))

    def ignores(self, namespace: str, name: str, raw: bytes) -> bool:
        """Whether no volume of the pod is a claim, and it has no class."""
        return b'"persistentVolumeClaim"' not in raw and not may_name_classes(raw)

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        namespace = item["metadata"]["namespace"]
        spec = item.get("spec") or {}
        claims = (
            (volume.get("persistentVolumeClaim") or {}).get("claimName")
            for volume in spec.get("volumes") or ()
        )
        needed = [
            ResourceIdentifier(
                group="", resource=PERSISTENT_VOLUME_CLAIMS.group_resource, namespace=namespace, name=claim
            )
            for claim in claims
            if claim
        ]
        needed += classes_of(item)
        return item, needed
