"""Puts the outcome of moved data into the records of a backup's volumes. Pure.

They are stored before the data is moved, and are what `backup describe` shows. (docs/spec: BEY 3.6, 6.7)
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import TransferPhase
from pinnace.api.velero.data_movement import DataUpload, DataUploadStatus
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.csi.movement.objects import is_built_in
from pinnace.kube.resources import DATA_UPLOADS
from pinnace.plugins.item_operations import ItemOperation
from pinnace.plugins.protocols import ResourceIdentifier

_MOST_CHARACTERS: Final = 4096
"""The longest message of a DataUpload that a warning quotes."""


def with_outcomes(
    infos: Sequence[BackupVolumeInfo],
    operations: Sequence[ItemOperation],
    objects: Mapping[ResourceIdentifier, JSONObject],
) -> list[BackupVolumeInfo]:
    """The records; those of moved data have the results of the operations.

    Args:
        operations: all have ended.
        objects: what was read again after them.
    """
    by_id = {operation.operation_id: operation for operation in operations}
    return [_with_outcome(info, by_id, objects) for info in infos]


def lacking(objects: Mapping[ResourceIdentifier, JSONObject]) -> list[str]:
    """The warnings of a backup about files that were moved but not as they are: what DataUploads say of them.

    Only those of the built-in mover, whose message on a completed one is what it could not keep.

    Args:
        objects: as in `with_outcomes`.
    """
    found = []
    for item, obj in objects.items():
        if item.group_resource != DATA_UPLOADS.group_resource or not is_built_in(obj):
            continue  # another mover's message may say that all is well
        message = text(obj, "status", "message")
        if text(obj, "status", "phase") == TransferPhase.COMPLETED and message:
            claim = f"{text(obj, 'spec', 'sourceNamespace')}/{text(obj, 'spec', 'sourcePVC')}"
            found.append(f"Volume of PersistentVolumeClaim {claim}: {message[:_MOST_CHARACTERS]}")
    return found


def _with_outcome(
    info: BackupVolumeInfo,
    operations: Mapping[str, ItemOperation],
    objects: Mapping[ResourceIdentifier, JSONObject],
) -> BackupVolumeInfo:
    moved = info.snapshot_data_movement_info
    operation = operations.get(moved.operation_id) if moved is not None else None
    if moved is None or operation is None:
        return info
    uploads = [
        objects[item]
        for item in operation.post_items
        if item.group_resource == DATA_UPLOADS.group_resource and item in objects
    ]
    try:
        status = decode(DataUpload, uploads[0]).status if uploads else DataUploadStatus()
    except DecodeError:  # the cluster's own definition may allow anything
        status = DataUploadStatus()
    return replace(
        info,
        result="failed" if operation.error else "succeeded",
        completion_timestamp=status.completion_timestamp,
        snapshot_data_movement_info=replace(
            moved,
            snapshot_handle=status.snapshot_id,
            size=status.progress.total_bytes,
            incremental_size=status.incremental_bytes,
            phase=status.phase,
        ),
    )
