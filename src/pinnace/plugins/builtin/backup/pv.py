"""`velero.io/pv`: a bound claim brings its volume. (docs/spec: BKP 8.3)"""

from collections.abc import Sequence

from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.plugins.protocols import ResourceIdentifier, ResourceSelector


class PersistentVolumeAction:
    """Names the PersistentVolume of a claim, once it is bound."""

    name = "velero.io/pv"

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=(PERSISTENT_VOLUME_CLAIMS.group_resource,))

    def ignores(self, namespace: str, name: str, raw: bytes) -> bool:
        """Whether the claim is not bound."""
        return b'"volumeName"' not in raw

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        volume = (item.get("spec") or {}).get("volumeName")
        if not volume or (item.get("status") or {}).get("phase") != "Bound":
            return item, ()
        return item, [
            ResourceIdentifier(
                group="", resource=PERSISTENT_VOLUMES.group_resource, namespace="", name=volume
            )
        ]
