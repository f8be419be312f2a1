"""Admission webhooks of old clusters: v1 of their API refuses some values. (docs/spec: BEY 5.10)"""

from typing import Final

from pinnace.api.objects import objects, text
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput

_TAKEN: Final = ("None", "NoneOnDryRun")


class DeclareNoSideEffects:
    """Declares webhooks to have no side effects where v1beta1 let them say `Some`, `Unknown` or nothing."""

    name = "velero.io/admission-webhook-configuration"

    async def applies_to(self) -> ResourceSelector:
        """Both kinds of configurations."""
        return ResourceSelector(
            included_resources=(
                "mutatingwebhookconfigurations.admissionregistration.k8s.io",
                "validatingwebhookconfigurations.admissionregistration.k8s.io",
            )
        )

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Change `sideEffects` of each webhook that v1 would refuse."""
        if not text(given.item, "apiVersion").endswith("/v1beta1"):
            for webhook in objects(given.item, "webhooks"):
                if webhook.get("sideEffects") not in _TAKEN:
                    webhook["sideEffects"] = "None"
        return RestoreItemOutput(item=given.item)
