"""The data that was moved into a location, by claim. Pure. (docs/spec: BEY 6.7, AFT-131)

The author of a backed up object can write anything into it. So a DataUpload of the tarball counts only where
the server's own list of operations names it for this claim.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.kinds import DATA_UPLOADS, PERSISTENT_VOLUME_CLAIMS
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.phases import TransferPhase
from pinnace.api.velero.data_movement import KNOWN_MOVERS, DataUpload
from pinnace.api.velero.pod_volume import KOPIA
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.catalogue.volumes import Claim, Place, SavedVolume, Way
from pinnace.csi.movement.objects import MovedVolume

_OPERATION: Final = "du-"
_WITHOUT_RECORD: Final = (
    "it was moved into the backup location by a data mover, and the backup has no record of the operation"
    " that would tell where"
)
_BUT: Final = "it was to be moved into the backup location, but "

ReadItem = Callable[[str, str, str], JSONObject | None]
"""Reads an object of the tarball by group resource, namespace and name; None if it cannot be read."""


def moved_claims(infos: Iterable[BackupVolumeInfo], operations: Iterable[JSONObject]) -> list[Claim]:
    """The claims whose data a data mover saved, or was to save, into the location. (docs/spec: BEY 6.7)

    Args:
        operations: of the backup's list of item operations, not checked.
    """
    found = [info.claim for info in infos if info.snapshot_data_moved and info.pvc_name]
    return list(dict.fromkeys([*found, *(claim for claim, _ in _uploading(operations))]))


def moved_volumes(
    infos: Iterable[BackupVolumeInfo], operations: Sequence[JSONObject], read: ReadItem
) -> dict[Claim, SavedVolume]:
    """The data of these claims; pure except for `read`."""
    found = {claim: without_record(claim) for claim in moved_claims(infos, operations)}
    for claim, operation in _uploading(operations):
        for item in objects(operation, "spec", "postOperationItems"):
            if text(item, "Resource") == DATA_UPLOADS.plural:
                stored = read(DATA_UPLOADS.group_resource, text(item, "Namespace"), text(item, "Name"))
                found[claim] = _volume(stored, claim)
    return found


def is_of_another_backup(upload: JSONObject, backup: str) -> bool:
    """Whether a DataUpload says that another backup made it: one of the server's namespace has those, too."""
    maker = mapping(upload, "metadata", "labels").get(labels.BACKUP_NAME)
    return maker not in (None, labels.label_value(backup))


def without_record(claim: Claim, title: str = "") -> SavedVolume:
    """Moved data whose place is not recorded.

    Args:
        title: names it; empty for its claim.
    """
    return _lacking(claim, _WITHOUT_RECORD, title=title)


def live_moved_volumes(uploads: Iterable[JSONObject]) -> Iterator[SavedVolume]:
    """The snapshots of DataUploads in a cluster, which the movers of this server or of Velero made."""
    for obj in uploads:
        if (snapshot := text(obj, "status", "snapshotID")) and text(obj, "spec", "datamover") in KNOWN_MOVERS:
            claim = text(obj, "spec", "sourceNamespace"), text(obj, "spec", "sourcePVC")
            yield _in_repository(MovedVolume(snapshot=snapshot, source_namespace=claim[0]), claim)


def _uploading(operations: Iterable[JSONObject]) -> Iterator[tuple[Claim, JSONObject]]:
    for operation in operations:
        about = mapping(operation, "spec", "resourceIdentifier")
        is_upload = text(operation, "spec", "operationID").startswith(_OPERATION)
        if is_upload and text(about, "Resource") == PERSISTENT_VOLUME_CLAIMS.plural:
            yield (text(about, "Namespace"), text(about, "Name")), operation


def _volume(stored: JSONObject | None, claim: Claim) -> SavedVolume:
    """The data that a stored DataUpload describes."""
    if stored is None:
        return _not_moved(claim, "its DataUpload is not in the backup")
    try:
        upload = decode(DataUpload, stored)
    except DecodeError as error:
        return _not_moved(claim, f"its DataUpload cannot be read: {error}")
    spec, status = upload.spec, upload.status
    if (spec.source_namespace, spec.source_pvc) != claim:
        return _not_moved(
            claim, f"its DataUpload is of another claim, {spec.source_namespace}/{spec.source_pvc}"
        )
    if spec.datamover not in KNOWN_MOVERS:
        return _not_moved(
            claim, f"it was moved by the data mover {spec.datamover}, which is not the built-in one"
        )
    if status.phase != TransferPhase.COMPLETED:
        what = f"its DataUpload is {status.phase or 'New'}: {status.message or 'no reason is given'}"
        return _not_moved(claim, what, Place.ELSEWHERE if status.snapshot_id else Place.NOWHERE)
    if not status.snapshot_id:
        return _not_moved(claim, "its DataUpload names no snapshot", Place.NOWHERE)
    return _in_repository(MovedVolume.of(upload), claim)


def _in_repository(moved: MovedVolume, claim: Claim) -> SavedVolume:
    return SavedVolume(
        way=Way.MOVED,
        place=Place.REPOSITORY,
        title=f"{KOPIA} snapshot {moved.snapshot}",
        claim=claim,
        uploader=KOPIA,
        snapshot=moved.snapshot,
        namespace=moved.source_namespace,
        size_bytes=moved.size_bytes,
        record=moved,
    )


def _lacking(claim: Claim, lacks: str, place: Place = Place.ELSEWHERE, *, title: str = "") -> SavedVolume:
    title = f"moved data of {title or f'claim {claim[0]}/{claim[1]}'}"
    return SavedVolume(way=Way.MOVED, place=place, title=title, claim=claim, lacks=lacks)


def _not_moved(claim: Claim, reason: str, place: Place = Place.ELSEWHERE) -> SavedVolume:
    return _lacking(claim, _BUT + reason, place)
