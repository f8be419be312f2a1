"""Waits until the additional items of an item are ready, as an action of version 2 asks. (BEY 5.6)"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from pinnace.aio.timing import poll
from pinnace.api.velero.restore import Restore
from pinnace.kube.errors import KubeError, NotFound, UnknownResource
from pinnace.plugins.asynchronous import RestoreItemActionV2
from pinnace.plugins.logs import plugin_lines_to
from pinnace.plugins.protocols import ResourceIdentifier, RestoreItemAction, RestoreItemOutput
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.item.known_kinds import KnownKinds


class AdditionalItems(msgspec.Struct, frozen=True, kw_only=True):
    """Asks actions whether additional items are ready.

    Attributes:
        timeout_seconds: how long an item waits if its action sets no timeout.
    """

    target: TargetCluster
    restore: Restore
    timeout_seconds: float

    async def wait(self, action: RestoreItemAction, output: RestoreItemOutput, kinds: KnownKinds) -> str:
        """Wait for the additional items that an action has named; returns why they are not ready, or ""."""
        if not isinstance(action, RestoreItemActionV2):
            return f"{action.name} asks to wait for additional items, which only actions of version 2 can do"
        try:
            present = await self._present(output.additional_items, kinds)
        except KubeError as error:
            return f"the additional items that {action.name} waits for could not be read: {error}"
        timeout = output.additional_items_ready_timeout
        seconds = timeout.total_seconds() if timeout else self.timeout_seconds

        async def ready() -> bool:
            with plugin_lines_to(self.target.log, action.name):
                return await action.are_additional_items_ready(present, self.restore)

        try:
            is_ready = await poll(ready, clock=self.target.clock, timeout_seconds=seconds)
        except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises concerns this item only
            return f"{action.name} could not say whether its additional items are ready: {error}"
        return "" if is_ready else f"the additional items of {action.name} were not ready within {seconds:g}s"

    async def _present(
        self, wanted: Sequence[ResourceIdentifier], kinds: KnownKinds
    ) -> list[ResourceIdentifier]:
        """The items that the cluster has now, with their target namespaces. Raises KubeError."""
        found = []
        for item in wanted:
            namespace = kinds.filters.target_namespace(item.namespace)
            try:
                resource = kinds.discovery.resolve(item.group_resource)
                await self.target.client.get(resource, item.name, namespace or None)
            except (UnknownResource, NotFound):
                continue
            found.append(replace(item, namespace=namespace))
        return found
