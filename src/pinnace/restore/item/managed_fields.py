"""Gives the fields of a restored object the owners that they had. Pure. (docs/spec: BEY 5.4; docs/adr/082)

A program that applies its objects (`kubectl apply --server-side`, GitOps) owns the fields that it wrote. If
the restore owned them, the next apply would be a conflict, and what is no longer wanted would stay for ever.
"""

from typing import Final

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject, copied, listed, mapping, text

_LONGEST_MANAGER: Final = 128
"""Bytes; the API server refuses longer names."""
_RESTORE_LABELS: Final = frozenset({f"f:{labels.BACKUP_NAME}", f"f:{labels.RESTORE_NAME}"})


class Ownership(msgspec.Struct, frozen=True, kw_only=True):
    """The owners of the fields of one object.

    Attributes:
        creator: the manager that the object is created as; empty for the restore itself.
        entries: `metadata.managedFields` of the backup, without the restore's labels.
        is_complete: whether the creator's name is all that the backup says, so that the entries need not be
            written once the object is created.
    """

    creator: str = ""
    entries: tuple[JSONObject, ...] = ()
    is_complete: bool = True


OF_THE_RESTORE: Final = Ownership()


def ownership_of(item: JSONObject) -> Ownership:
    """The owners of an object's fields in the backup.

    Most objects have one manager that writes them as a whole, beside those that write their status. The API
    server gives such a manager its fields if the object is created under its name, without a second request.
    """
    given = listed(item, "metadata", "managedFields")
    entries = tuple(entry for entry in map(_without_restore_labels, given) if entry is not None)
    owners = [entry for entry in entries if text(entry, "subresource") != "status"]
    if len(owners) == 1 and text(owners[0], "operation") == "Update" and not text(owners[0], "subresource"):
        creator = _manager(owners[0])
        return Ownership(creator=creator, entries=entries, is_complete=bool(creator))
    return Ownership(entries=entries, is_complete=not entries)


def _manager(entry: JSONObject) -> str:
    name = text(entry, "manager")
    return name if name.isprintable() and len(name.encode()) <= _LONGEST_MANAGER else ""


def _without_restore_labels(entry: object) -> JSONObject | None:
    """An entry that does not own the labels of a former restore; None if it is none, or owns nothing else."""
    if not isinstance(entry, dict) or not isinstance(entry.get("fieldsV1"), dict):
        return None
    owned = mapping(entry, "fieldsV1", "f:metadata", "f:labels")
    if not _RESTORE_LABELS & owned.keys():
        return entry
    changed: JSONObject = copied(entry)
    fields = changed["fieldsV1"]
    metadata = fields["f:metadata"]
    kept = {key: value for key, value in metadata["f:labels"].items() if key not in _RESTORE_LABELS}
    if kept.keys() <= {"."}:
        del metadata["f:labels"]
    else:
        metadata["f:labels"] = kept
    if not metadata:
        del fields["f:metadata"]
    return changed if fields else None


def patch_of(ownership: Ownership) -> JSONObject:
    """The merge patch that gives an object these owners."""
    return {"metadata": {"managedFields": list(ownership.entries)}}
