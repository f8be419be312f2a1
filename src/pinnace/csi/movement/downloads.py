"""The restore's side of moved data: creates DataDownloads, follows and cancels them. (docs/spec: BEY 6.7)"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import TransferPhase
from pinnace.api.velero.restore import Restore
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.following import Movements
from pinnace.csi.movement.objects import MovedVolume, is_in_place, new_download, operation_id, phase
from pinnace.csi.movement.taking import where_it_is
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import PASSING_ERRORS, NotFound
from pinnace.kube.resources import DATA_DOWNLOADS, PERSISTENT_VOLUME_CLAIMS
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
_TAKE_SECONDS: Final = 300.0
"""How long the server may take to take the volume of a claim that exists."""
_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class RestoreMovedData:
    """Fills volumes with data that was moved into the location; the transfer is done by node agents.

    As an action it only follows the operations that `start` began: claims are changed by the engine, which
    knows the whole backup.

    Args:
        namespace: the server's.
    """

    client: KubeClient
    namespace: str
    clock: Clock = SYSTEM_CLOCK

    @property
    def name(self) -> str:
        """The action's name in the records of operations."""
        return ACTION

    async def start(self, restore: Restore, claim: JSONObject, moved: MovedVolume, location: str) -> str:
        """Create the DataDownload for a claim; return the id of the operation.

        A restore that is resumed takes the one that it created before.

        If the claim has a volume, return when that is taken: pods that are created now cannot mount it.

        Raises:
            KubeError: it was not created, as far as can be told.
            MovementError: the volume was not taken.
        """
        operation = operation_id(restore.metadata.uid, claim["metadata"]["uid"])
        made = None
        if labels.RESUMED in restore.metadata.annotations:
            made = await self._movements.find_wanted(operation, restore.metadata.uid)
        if made is None:
            body = new_download(restore, claim, moved, location)
            made = await create_generated(self.client, DATA_DOWNLOADS, body, self.namespace)
        if is_in_place(made):
            await self._taken(made["metadata"]["name"])
        return operation

    async def _taken(self, name: str) -> None:
        """Wait until the server has taken the volume: its temporary claim exists. Raises MovementError."""
        deadline = self.clock.monotonic() + _TAKE_SECONDS
        while self.clock.monotonic() < deadline:
            try:
                found = await self.client.get(DATA_DOWNLOADS, name, self.namespace)
                now = phase(found)
                if now in phases.TRANSFER_ENDED and now != TransferPhase.COMPLETED:
                    raise MovementError(text(found, "status", "message") or f"its DataDownload is {now}")
                if now != TransferPhase.NEW or await self._is_there(name):
                    return
            except NotFound as error:
                raise MovementError(_GONE) from error
            except PASSING_ERRORS:
                pass  # asked again
            await self.clock.sleep(_POLL_SECONDS)
        await self.client.patch(DATA_DOWNLOADS, name, {"spec": {"cancel": True}}, self.namespace)
        raise MovementError(f"the server did not take its volume within {_TAKE_SECONDS / 60:g} minutes")

    async def _is_there(self, name: str) -> bool:
        try:
            await self.client.get(PERSISTENT_VOLUME_CLAIMS, name, self.namespace)
        except NotFound:
            return False
        return True

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
            after=lambda download: where_it_is(download) if is_in_place(download) else "",
        )
