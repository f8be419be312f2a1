"""A plugin that notes the owner of each backed-up pod, and adds its service account to the backup."""

from collections.abc import Mapping, Sequence

from pinnace.api.objects import JSONObject
from pinnace.plugins import (
    Backup,
    PluginError,
    Plugins,
    ResourceIdentifier,
    ResourceSelector,
    get_logger,
)

log = get_logger(__name__)


class AddOwner:
    """Writes the owner into an annotation of every pod that has none."""

    name = "example.com/add-owner"

    def __init__(self) -> None:
        self._owner = "unknown"

    async def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings of the ConfigMap; not needed by plugins without any."""
        self._owner = config.get("owner", self._owner)
        if not self._owner:
            raise PluginError("owner must not be empty")

    async def applies_to(self) -> ResourceSelector:
        """Pods only."""
        return ResourceSelector(included_resources=["pods"])

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        """Annotate the pod and name its service account."""
        metadata = item["metadata"]
        annotations = metadata.setdefault("annotations", {})
        if "example.com/owner" not in annotations:
            log.info("%s is %s's", metadata["name"], self._owner)
            annotations["example.com/owner"] = self._owner
        account = item.get("spec", {}).get("serviceAccountName")
        if not account:
            return item, []
        namespace = metadata["namespace"]
        return item, [
            ResourceIdentifier(group="", resource="serviceaccounts", namespace=namespace, name=account)
        ]


plugins = Plugins(backup_item_actions=[AddOwner])
