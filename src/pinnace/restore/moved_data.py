"""Data that was moved into the location, by the claims that it is of. (docs/spec: BEY 6.7)

The author of a backed up object can write anything into it. So a DataUpload of the tarball counts only where
the server's own list of operations names it for this claim.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.data_movement import BUILT_IN_MOVERS, DataMovementPhase, DataUpload
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.restore import Restore
from pinnace.csi.movement.downloads import RestoreMovedData
from pinnace.csi.movement.objects import MovedVolume, awaited_volume
from pinnace.kube.errors import KubeError
from pinnace.plugins.item_operations import StartedOperations
from pinnace.plugins.protocols import ResourceIdentifier
from pinnace.restore.item.reading import ItemRef
from pinnace.restore.results import Results

Claim = tuple[str, str]
"""Namespace in the backup, and name."""

_CLAIMS: Final = "persistentvolumeclaims"
_UPLOADS: Final = "datauploads"
_OPERATION: Final = "du-"

ReadItem = Callable[[str, str, str], JSONObject | None]
"""Reads an object of the tarball by group resource, namespace and name; None if it cannot be read."""


def moved_volumes(operations: Sequence[JSONObject], read: ReadItem) -> dict[Claim, MovedVolume | str]:
    """The moved data by claim, or why a claim's data cannot be restored; pure but for `read`.

    Args:
        operations: of the backup's list of item operations, not checked.
    """
    found: dict[Claim, MovedVolume | str] = {}
    for operation in operations:
        about = mapping(operation, "spec", "resourceIdentifier")
        is_upload = text(operation, "spec", "operationID").startswith(_OPERATION)
        if not is_upload or text(about, "Resource") != _CLAIMS:
            continue
        claim = text(about, "Namespace"), text(about, "Name")
        for item in objects(operation, "spec", "postOperationItems"):
            if text(item, "Resource") == _UPLOADS:
                stored = read(f"{_UPLOADS}.velero.io", text(item, "Namespace"), text(item, "Name"))
                found[claim] = _usable(stored, claim)
    return found


def _usable(stored: JSONObject | None, claim: Claim) -> MovedVolume | str:
    """What a stored DataUpload says, or what is wrong with it."""
    if stored is None:
        return "its DataUpload is not in the backup"
    try:
        upload = decode(DataUpload, stored)
    except DecodeError as error:
        return f"its DataUpload cannot be read: {error}"
    spec, status = upload.spec, upload.status
    if (spec.source_namespace, spec.source_pvc) != claim:
        return f"its DataUpload is of another claim, {spec.source_namespace}/{spec.source_pvc}"
    if spec.datamover not in BUILT_IN_MOVERS:
        return f"it was moved by the data mover {spec.datamover}, which is not the built-in one"
    if status.phase != DataMovementPhase.COMPLETED:
        return f"its DataUpload is {status.phase or 'New'}: {status.message or 'no reason is given'}"
    if not status.snapshot_id:
        return "its DataUpload names no snapshot"
    return MovedVolume.of(upload)


def wait_for_data(restore: Restore, ref: ItemRef, claim: JSONObject) -> None:
    """Change a claim, in place, so that it is bound to nothing but the volume that gets its data."""
    wanted = awaited_volume(ref.target_namespace, ref.name, restore.metadata.uid)
    claim["spec"]["selector"] = {"matchLabels": wanted}


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedData:
    """Starts the restore of moved data when its claim was created.

    Attributes:
        volumes: by claim in the backup.
        starter: None where no server and node agents do the work; then there are no volumes.
        location: that holds the data.
    """

    volumes: Mapping[Claim, MovedVolume]
    starter: RestoreMovedData | None
    location: str
    started: StartedOperations

    async def restore(self, restore: Restore, ref: ItemRef, created: bytes, results: Results) -> None:
        """Ask for the data of a claim that was just created; nothing for claims without moved data."""
        moved = self.volumes.get((ref.original_namespace, ref.name))
        if moved is None or self.starter is None:
            return
        claim = orjson.loads(created)
        if labels.DYNAMIC_PV_RESTORE not in mapping(claim, "spec", "selector", "matchLabels"):
            return
        try:
            operation = await self.starter.start(restore, claim, moved, self.location)
        except KubeError as error:
            results.errors.add(
                ref.target_namespace,
                f"error restoring {ref.id}: the data of its volume is not restored, as no DataDownload"
                f" could be created: {error}. The claim stays unbound: delete it and restore again",
            )
            return
        item = ResourceIdentifier(group="", resource=_CLAIMS, namespace=ref.original_namespace, name=ref.name)
        self.started.add(self.starter.name, operation, item)
