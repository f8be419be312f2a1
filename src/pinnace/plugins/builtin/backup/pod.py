"""`velero.io/pod`: a pod brings the claims of its volumes. (docs/spec: BKP 8.3)"""

from collections.abc import Sequence

from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.plugins.protocols import ResourceIdentifier, ResourceSelector


class PodAction:
    """Names the PersistentVolumeClaims that a pod mounts; generic ephemeral volumes are not looked at."""

    name = "velero.io/pod"

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=("pods",))

    def ignores(self, namespace: str, name: str, raw: bytes) -> bool:
        """Whether no volume of the pod is a claim."""
        return b'"persistentVolumeClaim"' not in raw

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        namespace = item["metadata"]["namespace"]
        volumes = (item.get("spec") or {}).get("volumes") or ()
        claims = ((volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes)
        return item, [
            ResourceIdentifier(group="", resource="persistentvolumeclaims", namespace=namespace, name=claim)
            for claim in claims
            if claim
        ]
