"""The plain part of a backup's metadata where `encryption.hideDetails` keeps the rest of it from readers.

`velero-backup.json` stays plain, as lists, synchronization, expiry and deletion read it without an identity.
It has what they need; the whole Backup is in `<backup>-pinnace-details.json.gz`, encrypted. (ADR 124)
"""

from collections.abc import Collection, Mapping
from typing import Final

import orjson

from pinnace.api.labels import (
    ENCRYPTED,
    HIDDEN_DETAILS,
    HOLD,
    ITEM_OPERATIONS,
    OWN_TTL,
    SIZE_BYTES,
    SOURCE_CLUSTER_UID,
)
from pinnace.api.objects import JSONObject, mapping

_METADATA: Final = ("name", "namespace", "uid", "creationTimestamp")
_ANNOTATIONS: Final = (ENCRYPTED, HOLD, ITEM_OPERATIONS, OWN_TTL, SIZE_BYTES, SOURCE_CLUSTER_UID)
"""Marks, digests and the size of a file: none of them names what was saved."""
_SPEC: Final = ("storageLocation", "ttl")
_STATUS: Final = (
    "version",
    "formatVersion",
    "phase",
    "startTimestamp",
    "completionTimestamp",
    "expiration",
)
_FAILURE: Final = "failureReason"
_SEE_DETAILS: Final = "the reason is in the encrypted details of the backup"


def without_details(metadata: bytes) -> bytes:
    """`velero-backup.json` with its plain part alone, marked as such.

    Left out are labels, namespaces and all else that was asked for, counts, and reasons of failures; whether
    there was one stays.
    """
    content: JSONObject = orjson.loads(metadata)
    meta, status = mapping(content, "metadata"), mapping(content, "status")
    kept = _chosen(meta, _METADATA)
    kept["annotations"] = _chosen(mapping(meta, "annotations"), _ANNOTATIONS) | {HIDDEN_DETAILS: "true"}
    shown = _chosen(status, _STATUS)
    if status.get(_FAILURE):
        shown[_FAILURE] = _SEE_DETAILS
    public = {
        "kind": content.get("kind"),
        "apiVersion": content.get("apiVersion"),
        "metadata": kept,
        "spec": _chosen(mapping(content, "spec"), _SPEC),
        "status": shown,
    }
    return orjson.dumps(public, option=orjson.OPT_INDENT_2)


def hides_details(metadata: bytes) -> bool:
    """Whether metadata that was read is the plain part alone. Damaged metadata is not."""
    if HIDDEN_DETAILS.encode() not in metadata:
        return False
    try:
        content = orjson.loads(metadata)
    except ValueError:
        return False
    annotations = mapping(content, "metadata", "annotations") if isinstance(content, dict) else {}
    return HIDDEN_DETAILS in annotations


def is_plain_part(public: bytes, details: bytes) -> bool:
    """Whether metadata is the plain part of these details: somebody may have changed it."""
    try:
        if not isinstance(orjson.loads(details), dict):
            return False
        expected: JSONObject = orjson.loads(without_details(details))
        found: JSONObject = orjson.loads(public)
    except ValueError:
        return False
    return expected == found


def _chosen(content: Mapping[str, object], keys: Collection[str]) -> dict[str, object]:
    return {key: content[key] for key in keys if key in content}
