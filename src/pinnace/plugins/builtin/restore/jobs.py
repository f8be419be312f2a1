"""Jobs: removes the labels that tied pods to the old Job; the new one gets its own. (RST 16)"""

from typing import Final

from pinnace.api import labels
from pinnace.api.objects import mapping
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput

_UID_LABELS: Final = (labels.CONTROLLER_UID, "batch.kubernetes.io/controller-uid")
"""The second since Kubernetes 1.27."""


class FreeJob:
    """Removes the uid of the old Job from selector and pod template."""

    name = "velero.io/job"

    async def applies_to(self) -> ResourceSelector:
        """Jobs."""
        return ResourceSelector(included_resources=("jobs",))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Leave a Job with a selector of its user's own as it is: its labels are the user's too."""
        spec = mapping(given.item, "spec")
        if spec.get("manualSelector") is not True:
            for holder in (
                mapping(spec, "selector", "matchLabels"),
                mapping(spec, "template", "metadata", "labels"),
            ):
                for label in _UID_LABELS:
                    holder.pop(label, None)
        return RestoreItemOutput(item=given.item)
