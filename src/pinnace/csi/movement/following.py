"""Progress and cancellation of the DataUpload or DataDownload of an item operation. (docs/spec: BEY 6.7)"""

from collections.abc import Callable

import msgspec

from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import TransferPhase
from pinnace.csi.movement.objects import has_finalizer, phase
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import APIResource
from pinnace.plugins.asynchronous import OperationProgress


class Movements(msgspec.Struct, frozen=True, kw_only=True):
    """Finds the objects of one kind by their operation.

    Attributes:
        namespace: the server's.
        owner_label: the label with the uid of the Backup or Restore.
        gone: the error of an operation whose object was deleted.
        after: says what has become of the volume of an object that did not complete; empty for nothing.
    """

    client: KubeClient
    namespace: str
    resource: APIResource
    owner_label: str
    gone: str
    after: Callable[[JSONObject], str] = lambda _obj: ""

    async def progress(self, operation: str, owner_uid: str) -> OperationProgress:
        """The progress of an operation. It ends when everything made for it is removed."""
        found = await self._find(operation, owner_uid)
        if found is None:
            return OperationProgress(completed=True, error=self.gone)
        now, done = phase(found), mapping(found, "status", "progress")
        is_over = now in phases.TRANSFER_ENDED and not has_finalizer(found)
        error = ""
        if is_over and now != TransferPhase.COMPLETED:
            said = text(found, "status", "message") or f"its {self.resource.kind} is {now}"
            error = "; ".join(filter(None, (said, self.after(found))))
        return OperationProgress(
            completed=is_over,
            error=error,
            done=int(done.get("bytesDone") or 0),
            total=int(done.get("totalBytes") or 0),
            units="Bytes",
            description=now,
        )

    async def cancel(self, operation: str, owner_uid: str) -> None:
        """Ask for the cancellation of the operation, unless it has ended."""
        found = await self._find(operation, owner_uid)
        if found is not None and phase(found) not in phases.TRANSFER_ENDED:
            patch = {"spec": {"cancel": True}}
            await self.client.patch(self.resource, found["metadata"]["name"], patch, self.namespace)

    async def _find(self, operation: str, owner_uid: str) -> JSONObject | None:
        own_labels = {self.owner_label: owner_uid, labels.ASYNC_OPERATION_ID: labels.label_value(operation)}
        selector = ",".join(f"{key}={value}" for key, value in own_labels.items())
        found = await self.client.list_all(self.resource, self.namespace, label_selector=selector)
        # A restore that is resumed makes another one in place of one that was canceled.
        return min(found, key=lambda each: mapping(each, "spec").get("cancel") is True, default=None)

    async def find_wanted(self, operation: str, owner_uid: str) -> JSONObject | None:
        """The object of an operation, unless it is to be canceled. Raises KubeError."""
        found = await self._find(operation, owner_uid)
        return None if found is None or mapping(found, "spec").get("cancel") is True else found
