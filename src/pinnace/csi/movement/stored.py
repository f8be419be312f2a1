"""The moved data of a backup, by claim. (docs/spec: BEY 6.7)

The author of a backed up object can write anything into it. So a DataUpload of the tarball counts only where
the server's own list of operations names it for this claim.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from pinnace.api.codec import DecodeError, decode
from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.phases import TransferPhase
from pinnace.api.velero.data_movement import BLOCK_MOVER, BUILT_IN_MOVERS, DataUpload
from pinnace.csi.movement.objects import MovedVolume

Claim = tuple[str, str]
"""Namespace in the backup, and name."""

_CLAIMS: Final = PERSISTENT_VOLUME_CLAIMS.group_resource
_UPLOADS: Final = "datauploads"
_OPERATION: Final = "du-"


class NotMoved(msgspec.Struct, frozen=True):
    """Why there is no data to restore.

    Attributes:
        is_known: whether it is certain that this server has nothing to delete either.
        in_repository: the data that is in a repository, where it can be verified and deleted; None without.
    """

    reason: str
    is_known: bool = False
    in_repository: MovedVolume | None = None


ReadItem = Callable[[str, str, str], JSONObject | None]
"""Reads an object of the tarball by group resource, namespace and name; None if it cannot be read."""


def moved_volumes(operations: Sequence[JSONObject], read: ReadItem) -> dict[Claim, MovedVolume | NotMoved]:
    """The moved data by claim, or why a claim's data cannot be restored; pure except for `read`.

    Args:
        operations: of the backup's list of item operations, not checked.
    """
    found: dict[Claim, MovedVolume | NotMoved] = {}
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


def _usable(stored: JSONObject | None, claim: Claim) -> MovedVolume | NotMoved:
    """The data that a stored DataUpload describes, or why it cannot be used."""
    if stored is None:
        return NotMoved("its DataUpload is not in the backup")
    try:
        upload = decode(DataUpload, stored)
    except DecodeError as error:
        return NotMoved(f"its DataUpload cannot be read: {error}")
    spec, status = upload.spec, upload.status
    if (spec.source_namespace, spec.source_pvc) != claim:
        return NotMoved(f"its DataUpload is of another claim, {spec.source_namespace}/{spec.source_pvc}")
    is_block = spec.datamover == BLOCK_MOVER
    if spec.datamover not in BUILT_IN_MOVERS and not is_block:
        return NotMoved(f"it was moved by the data mover {spec.datamover}, which is not the built-in one")
    if status.phase != TransferPhase.COMPLETED:
        what = f"its DataUpload is {status.phase or 'New'}: {status.message or 'no reason is given'}"
        return NotMoved(what, is_known=not status.snapshot_id)
    if not status.snapshot_id:
        return NotMoved("its DataUpload names no snapshot", is_known=True)
    if is_block:
        reason = f"it was moved by the data mover {BLOCK_MOVER}, whose images this version cannot restore"
        return NotMoved(reason, is_known=True, in_repository=MovedVolume.of(upload))
    return MovedVolume.of(upload)
