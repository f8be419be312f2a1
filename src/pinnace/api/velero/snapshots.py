"""The record of a native volume snapshot, as the file of a backup keeps it. (docs/spec: STO 3.2)

This module reads and writes the JSON; `storage` compresses it.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Struct, field

from pinnace.api.codec import DecodeError, decode, encode
from pinnace.api.fields import ALWAYS, Int64


class VolumeSnapshotPhase(StrEnum):
    """The outcome of taking a snapshot."""

    NEW = "New"
    COMPLETED = "Completed"
    FAILED = "Failed"


class VolumeSnapshotSpec(Struct, rename="camel", kw_only=True):
    """The volume, the backup, and what is needed to create a volume from the snapshot."""

    backup_name: Annotated[str, ALWAYS] = ""
    backup_uid: Annotated[str, ALWAYS] = field(name="backupUID", default="")
    location: Annotated[str, ALWAYS] = ""
    # The capital P is a slip of the first writer that every reader now expects.
    persistent_volume_name: Annotated[str, ALWAYS] = field(name="PersistentVolumeName", default="")
    provider_volume_id: Annotated[str, ALWAYS] = field(name="providerVolumeID", default="")
    volume_type: Annotated[str, ALWAYS] = ""
    volume_az: str = field(name="volumeAZ", default="")
    volume_iops: Int64 | None = field(name="volumeIOPS", default=None)


class VolumeSnapshotStatus(Struct, rename="camel", kw_only=True):
    """The outcome, and the provider's id of the snapshot."""

    provider_snapshot_id: str = field(name="providerSnapshotID", default="")
    phase: str = ""


class VolumeSnapshot(Struct, rename="camel", kw_only=True):
    """One snapshot of one persistent volume."""

    spec: VolumeSnapshotSpec = field(default_factory=VolumeSnapshotSpec)
    status: VolumeSnapshotStatus = field(default_factory=VolumeSnapshotStatus)


_LIST_NAME: Final = "list of VolumeSnapshots"


def decode_snapshots(records: Iterable[object]) -> list[VolumeSnapshot]:
    """Read the records of a backup. Keys are read whatever their case.

    Raises:
        DecodeError: one is not such a record.
    """
    return [_decode_record(record, index) for index, record in enumerate(records)]


def encode_snapshots(snapshots: Iterable[VolumeSnapshot]) -> bytes:
    """Return the list as compact JSON with a newline; an empty one is `null`. (docs/spec: STO 3)"""
    records = [encode(snapshot) for snapshot in snapshots]
    return msgspec.json.encode(records or None) + b"\n"


def _decode_record(record: Any, index: int) -> VolumeSnapshot:
    folded = _with_known_keys(record, VolumeSnapshot)
    if not isinstance(folded, dict):
        raise DecodeError(_LIST_NAME, f"[{index}]", "Expected `object`")
    for key, part in (("spec", VolumeSnapshotSpec), ("status", VolumeSnapshotStatus)):
        if key in folded:
            folded[key] = _with_known_keys(folded[key], part)
    try:
        return decode(VolumeSnapshot, folded)
    except DecodeError as error:
        raise DecodeError(_LIST_NAME, f"[{index}].{error.path}", error.problem) from error


def _with_known_keys(value: Any, cls: type[Struct]) -> Any:
    """`value` with the keys that differ from known ones in case only renamed; an exact key goes first."""
    if not isinstance(value, Mapping):
        return value
    known: dict[str, str] = {key.lower(): key for key in cls.__struct_encode_fields__ if key}
    renamed: dict[str, Any] = {}
    for key, member in value.items():
        wanted = known.get(str(key).lower(), str(key))
        if wanted == key or wanted not in value:
            renamed[wanted] = member
    return renamed
