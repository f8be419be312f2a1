"""Describes the records that backups and restores keep of each volume. Pure. (docs/spec: BEY 3.6, 3.7)

They come from files of a location and count as hostile input: a field that is missing or of another type is
shown as empty.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.data_movement import BUILT_IN_MOVER
from pinnace.api.volume_info import BackupMethod
from pinnace.cli.output.layout import Sheet

Fields = Sequence[tuple[str, str]]
"""Titles, and keys in the record."""

_SNAPSHOT: Final[Fields] = (
    ("Operation ID", "operationID"),
    ("Snapshot Content Name", "vscName"),
    ("Storage Snapshot ID", "snapshotHandle"),
    ("Snapshot Size (bytes)", "size"),
    ("CSI Driver", "driver"),
)
_MOVED: Final[Fields] = (
    ("Operation ID", "operationID"),
    ("Data Mover", "dataMover"),
    ("Uploader Type", "uploaderType"),
    ("Snapshot ID", "snapshotHandle"),
    ("Moved data Size (bytes)", "size"),
    ("Incremental data Size (bytes)", "incrementalSize"),
)
_NATIVE: Final[Fields] = (
    ("Snapshot ID", "snapshotHandle"),
    ("Type", "volumeType"),
    ("Availability Zone", "volumeAZ"),
    ("IOPS", "iops"),
)


def claim_of(info: JSONObject) -> str:
    """`namespace/claim`, or the name of the volume where there is no claim."""
    claim = text(info, "pvcName")
    return f"{text(info, 'pvcNamespace')}/{claim}" if claim else text(info, "pvName")


def of_csi(infos: Sequence[JSONObject], method: str = "backupMethod") -> list[JSONObject]:
    """The records of CSI snapshots, moved ones included."""
    return [info for info in infos if text(info, method) == BackupMethod.CSI_SNAPSHOT]


def skipped(infos: Sequence[JSONObject]) -> dict[str, str]:
    """The volumes whose data is not in the backup, each with the reason."""
    return {
        claim_of(info): text(info, "skippedReason").strip().rstrip(";")
        for info in infos
        if info.get("skipped") is True
    }


def csi_snapshots(
    sheet: Sheet, infos: Sequence[JSONObject], title: str, method: str = "backupMethod"
) -> None:
    """Write the CSI snapshots by claim, each with the place of its data; nothing without any."""
    found = of_csi(infos, method)
    if not found:
        return
    sheet.line()
    sheet.line(f"{title}:")
    for info in sorted(found, key=claim_of):
        sheet.line(f"\t{claim_of(info)}:")
        if info.get("snapshotDataMoved") is True:
            sheet.line("\t\tData Movement:")
            moved = mapping(info, "snapshotDataMovementInfo")
            _fields(sheet, {**moved, "dataMover": moved.get("dataMover") or BUILT_IN_MOVER}, _MOVED)
        else:
            sheet.line("\t\tSnapshot:")
            _fields(sheet, mapping(info, "csiSnapshotInfo"), _SNAPSHOT)
        if result := text(info, "result"):
            sheet.field("Result", result, indent=3)


def native_snapshots(sheet: Sheet, infos: Sequence[JSONObject], title: str) -> None:
    """Write the native snapshots that volumes were restored from; nothing without any."""
    found = [info for info in infos if text(info, "restoreMethod") == BackupMethod.NATIVE_SNAPSHOT]
    if not found:
        return
    sheet.line()
    sheet.line(f"{title}:")
    for info in sorted(found, key=lambda each: text(each, "pvName")):
        sheet.line(f"\t{text(info, 'pvName')}:")
        if text(info, "pvcName"):
            sheet.field("Claim", claim_of(info), indent=3)
        _fields(sheet, mapping(info, "nativeSnapshotInfo"), _NATIVE)


def skipped_volumes(sheet: Sheet, found: Mapping[str, str]) -> None:
    """Write the volumes whose data is not in the backup, each with the reason; nothing without any."""
    if not found:
        return
    sheet.line()
    sheet.line("Volumes without data in the backup:")
    for name, reason in sorted(found.items()):
        sheet.field(name, reason or "<no reason given>", indent=1)


def _fields(sheet: Sheet, record: JSONObject, fields: Fields) -> None:
    for title, key in fields:
        value = record.get(key)
        if value not in (None, "", 0) and isinstance(value, str | int):
            sheet.field(title, value, indent=3)
