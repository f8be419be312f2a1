"""Definitions that extend the API: CustomResourceDefinitions and APIServices. (docs/spec: RST 16)"""

from pinnace.api import labels
from pinnace.api.objects import mapping, objects
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput


class SkipManagedAPIService:
    """Skips APIServices that the API server itself keeps."""

    name = "velero.io/apiservice"

    async def applies_to(self) -> ResourceSelector:
        """APIServices with the label of those that are managed automatically, whatever its value."""
        return ResourceSelector(
            included_resources=("apiservices",), label_selector=labels.API_SERVICE_AUTOMANAGED
        )

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Skip."""
        return RestoreItemOutput(item=given.item, skip=True)


class PreserveUnknownFields:
    """Says 'keep unknown fields' in the way that version v1 of definitions allows."""

    name = "velero.io/crd-preserve-fields"

    async def applies_to(self) -> ResourceSelector:
        """CustomResourceDefinitions."""
        return ResourceSelector(included_resources=("customresourcedefinitions",))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Move the flag from the spec to the root of every version's schema; v1beta1 stays as it is."""
        spec = mapping(given.item, "spec")
        if (
            given.item.get("apiVersion") == "apiextensions.k8s.io/v1"
            and spec.get("preserveUnknownFields") is True
        ):
            del spec["preserveUnknownFields"]
            for version in objects(spec, "versions"):
                schema = mapping(version, "schema").get("openAPIV3Schema")
                if isinstance(schema, dict):
                    schema["x-kubernetes-preserve-unknown-fields"] = True
        return RestoreItemOutput(item=given.item)
