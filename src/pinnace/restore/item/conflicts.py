"""Compares an existing object with the restored one, and merges ServiceAccounts. Pure.

`deciding` decides about differences. (docs/spec: RST 17)
"""

import copy
from collections.abc import Mapping
from typing import Final

from pinnace.api.objects import JSONObject, copied, same_json
from pinnace.restore.metadata import drop_empty_leftovers, put_labels, reset_metadata

TOKEN_SECRET_TYPE: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a type
TOKEN_UID_ANNOTATION: Final = "kubernetes.io/service-account.uid"  # noqa: S105 - a name


def comparable(
    in_cluster: JSONObject, restore_labels: Mapping[str, str], *, with_status: bool = False
) -> JSONObject:
    """The in-cluster object as it would look if this restore had created it.

    Args:
        with_status: whether the restore creates it with its status.

    Returns:
        A copy without transient metadata, with the labels of this restore. It shares the rest with the
        original.
    """
    stripped = dict(in_cluster)
    reset_metadata(stripped)
    if with_status and "status" in in_cluster:
        stripped["status"] = in_cluster["status"]
    put_labels(stripped, restore_labels)
    return stripped


def is_same(in_cluster: JSONObject, desired: JSONObject) -> bool:
    """Compare two trees strictly: a missing key is not a null, and `1000m` is not `1`.

    Args:
        in_cluster: what `comparable` returned.
        desired: the object as it was sent to the server.
    """
    left, right = copy.copy(in_cluster), copy.copy(desired)
    for item in (left, right):
        item["metadata"] = dict(item["metadata"])
        drop_empty_leftovers(item)
        if item.get("type") == TOKEN_SECRET_TYPE:
            _hide_generated_token(item)
    return same_json(left, right)


def only_leaves_out(desired: JSONObject, backed_up: JSONObject) -> bool:
    """Whether the first has nothing but what the second has: fields and entries may be missing.

    Objects that are nested too deeply to tell count as such.
    """
    try:
        return _is_part(desired, backed_up)
    except RecursionError:
        return True


def _is_part(part: object, whole: object) -> bool:
    if part is None or part == {} or part == []:
        return True
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(_is_part(value, whole.get(key)) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        remaining = iter(whole)
        for entry in part:
            for candidate in remaining:
                if _is_part(entry, candidate):
                    break
            else:
                return False
        return True
    return type(part) is type(whole) and part == whole


def _hide_generated_token(secret: JSONObject) -> None:
    """Remove, in place, the fields that the token controller writes: they are no difference."""
    secret.pop("data", None)
    annotations = dict(secret["metadata"].get("annotations") or {})
    annotations.pop(TOKEN_UID_ANNOTATION, None)
    secret["metadata"]["annotations"] = annotations


def merged_service_account(in_cluster: JSONObject, from_backup: JSONObject) -> JSONObject:
    """The account in the cluster plus the entries that only the backup has.

    Secrets and pull secrets are matched by name and appended in the backup's order. Only missing keys of
    labels and annotations are added; existing values win. Other fields are unchanged.
    """
    merged = copied(in_cluster)
    for field in ("secrets", "imagePullSecrets"):
        present = merged.get(field) or []
        names = {entry.get("name") for entry in present}
        missing = [entry for entry in from_backup.get(field) or [] if entry.get("name") not in names]
        if missing:
            merged[field] = [*present, *missing]
    for field in ("labels", "annotations"):
        added = {**(from_backup["metadata"].get(field) or {}), **(merged["metadata"].get(field) or {})}
        if added:
            merged["metadata"][field] = added
    return merged
