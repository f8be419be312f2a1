"""A backup item action for every item: does what the item's annotation says, with a label that can be set."""

from collections.abc import Mapping, Sequence

from pinnace.api.objects import JSONObject
from pinnace.plugins import Backup, Plugins, ResourceIdentifier, ResourceSelector
from tests.support.sample_plugin.actions import labelled, misbehave, wish_of


class Everything:
    name = "example.io/everything"

    def __init__(self) -> None:
        self._label = "backup"

    async def configure(self, config: Mapping[str, str]) -> None:
        self._label = config.get("label", self._label)

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector()

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        await misbehave(item)
        if wish_of(item) == "change":
            return labelled(item, self._label, backup.metadata.name), []
        return item, []


plugins = Plugins(backup_item_actions=[Everything])
