"""`velero.io/crd-remap-version`: some v1 definitions can only be restored as v1beta1. (docs/spec: BKP 8.4)"""

from collections.abc import Sequence

from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.plugins.protocols import ResourceIdentifier, ResourceSelector

GROUP = "apiextensions.k8s.io"
DEFINITIONS = f"customresourcedefinitions.{GROUP}"


class CRDRemapVersionAction:
    """Replaces a definition that was made as v1beta1, and that v1 would refuse, by its v1beta1 form.

    Where the cluster does not serve v1beta1 any more, the v1 form is kept: it is all there is.
    """

    name = "velero.io/crd-remap-version"

    def __init__(self, client: KubeClient, discovery: Discovery) -> None:
        self._client = client
        self._discovery = discovery

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=(DEFINITIONS,))

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        if item.get("apiVersion", f"{GROUP}/v1") != f"{GROUP}/v1" or not _needs_v1beta1(item):
            return item, ()
        resource = self._discovery.served(DEFINITIONS, "v1beta1")
        if resource is None:
            return item, ()
        older = await self._client.get(resource, item["metadata"]["name"])
        return {**older, "apiVersion": resource.api_version, "kind": resource.kind}, ()


def _needs_v1beta1(definition: JSONObject) -> bool:
    spec = definition.get("spec") or {}
    versions = spec.get("versions") or ()
    if versions and not (versions[0].get("schema") or {}).get("openAPIV3Schema"):
        return True
    conditions = (definition.get("status") or {}).get("conditions") or ()
    if any(condition.get("type") == "NonStructuralSchema" for condition in conditions):
        return True
    return spec.get("preserveUnknownFields") is True
