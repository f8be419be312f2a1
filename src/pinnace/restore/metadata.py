"""The metadata that a restore keeps, removes and adds. (docs/spec: RST 14)"""

from collections.abc import Mapping
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject

KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations")
BINDING_ANNOTATIONS: Final = (
    labels.PV_BIND_COMPLETED,
    labels.PV_BOUND_BY_CONTROLLER,
)
"""Annotations of the old binding. `provisioned-by` stays, as it names who may delete the volume."""


def reset_metadata(item: JSONObject) -> None:
    """Keep name, namespace, labels and annotations, and drop the status, in place.

    Owner references, finalizers, uid and the rest are removed: they are invalid in another cluster.
    """
    metadata = item["metadata"]
    item["metadata"] = {key: metadata[key] for key in KEPT_METADATA if key in metadata}
    item.pop("status", None)


def drop_empty_leftovers(item: JSONObject) -> None:
    """Remove a null `creationTimestamp` and an empty `status`, in place.

    Actions written against typed Go structs add both; they would make every comparison 'different'.
    """
    metadata = item.get("metadata")
    if (
        isinstance(metadata, dict)
        and "creationTimestamp" in metadata
        and metadata["creationTimestamp"] is None
    ):
        del metadata["creationTimestamp"]
    if "status" in item and not item["status"]:
        del item["status"]


def put_labels(item: JSONObject, added: Mapping[str, str]) -> None:
    """Overwrite the given labels in the item, in place."""
    item["metadata"]["labels"] = {**(item["metadata"].get("labels") or {}), **added}


def clear_binding_info(item: JSONObject) -> None:
    """Remove the old cluster's binding from a volume or claim, in place, so that it can be bound again."""
    claim_ref = item.get("spec", {}).get("claimRef")
    if isinstance(claim_ref, dict):
        claim_ref.pop("uid", None)
        claim_ref.pop("resourceVersion", None)
    annotations = item["metadata"].get("annotations")
    if annotations:
        for name in BINDING_ANNOTATIONS:
            annotations.pop(name, None)


def is_terminating(namespace: JSONObject) -> bool:
    """Whether a namespace is being deleted."""
    deleting = namespace.get("metadata", {}).get("deletionTimestamp") is not None
    return deleting or namespace.get("status", {}).get("phase") == "Terminating"
