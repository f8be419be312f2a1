"""The restore's side of moved data: creates DataDownloads, follows and cancels them. (docs/spec: BEY 6.7)"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import Restore
from pinnace.csi.movement.following import Movements
from pinnace.csi.movement.objects import MovedVolume, new_download, operation_id
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import DATA_DOWNLOADS
from pinnace.plugins.asynchronous import OperationProgress
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)
from pinnace.volumes.creating import create_generated

ACTION: Final = "pinnace.io/restore-moved-data"
_GONE: Final = "its DataDownload was deleted before the data was restored"


@dataclass(frozen=True, slots=True)
class RestoreMovedData:
    """Fills new volumes with data that was moved into the location; the transfer is done by node agents.

    As an action it only follows the operations that `start` began: claims are changed by the engine, which
    knows the whole backup.

    Args:
        namespace: the server's.
    """

    client: KubeClient
    namespace: str

    @property
    def name(self) -> str:
        """The action's name in the records of operations."""
        return ACTION

    async def start(self, restore: Restore, claim: JSONObject, moved: MovedVolume, location: str) -> str:
        """Create the DataDownload for a claim that was just created; return the id of the operation.

        Raises:
            KubeError: it was not created, as far as can be told.
        """
        body = new_download(restore, claim, moved, location)
        await create_generated(self.client, DATA_DOWNLOADS, body, self.namespace)
        return operation_id(restore.metadata.uid, claim["metadata"]["uid"])

    async def applies_to(self) -> ResourceSelector:
        """Select no item."""
        return ResourceSelector(included_resources=(DATA_DOWNLOADS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Leave the item as it is."""
        return RestoreItemOutput(item=given.item)

    async def progress(self, operation: str, restore: Restore) -> OperationProgress:
        """The progress of the DataDownload. It ends when the volume is bound to its claim."""
        return await self._movements.progress(operation, restore.metadata.uid)

    async def cancel(self, operation: str, restore: Restore) -> None:
        """Cancel the DataDownload."""
        await self._movements.cancel(operation, restore.metadata.uid)

    async def are_additional_items_ready(self, items: Sequence[ResourceIdentifier], restore: Restore) -> bool:
        """Always: there are no additional items."""
        return True

    @property
    def _movements(self) -> Movements:
        return Movements(
            client=self.client,
            namespace=self.namespace,
            resource=DATA_DOWNLOADS,
            owner_label=labels.RESTORE_UID,
            gone=_GONE,
        )
