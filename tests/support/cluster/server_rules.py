"""The rules of an API server that need no objects: names, patches, defaults, kinds with a status. Pure."""

import string
from collections.abc import Callable
from typing import Any, Final

from pinnace.api.objects import JSONObject, copied

_SUFFIX_LETTERS = "".join(sorted(set(string.ascii_lowercase + string.digits) - set("aeiou013")))

WITH_STATUS: Final = frozenset(
    {
        "namespaces",
        "nodes",
        "persistentvolumes",
        "persistentvolumeclaims",
        "pods",
        "services",
        "resourcequotas",
        "replicationcontrollers",
        "deployments",
        "daemonsets",
        "replicasets",
        "statefulsets",
        "jobs",
        "cronjobs",
        "ingresses",
        "poddisruptionbudgets",
        "customresourcedefinitions",
        "volumeattachments",
        "volumesnapshots",
        "volumesnapshotcontents",
        "backupstoragelocations",
        "downloadrequests",
        "serverstatusrequests",
        "nonadminbackups",
        "nonadminbackupstoragelocationrequests",
        "nonadminbackupstoragelocations",
        "nonadmindownloadrequests",
        "nonadminrestores",
    }
)
"""Plurals of the kinds that have a status sub-resource, of Kubernetes and by our definitions."""

WITHOUT_GENERATION: Final = frozenset(
    {"configmaps", "secrets", "namespaces", "nodes", "serviceaccounts", "services", "persistentvolumes"}
    | {"persistentvolumeclaims", "events", "leases.coordination.k8s.io"}
    | {f"{plural}.rbac.authorization.k8s.io" for plural in ("roles", "rolebindings")}
    | {f"{plural}.rbac.authorization.k8s.io" for plural in ("clusterroles", "clusterrolebindings")}
    | {"storageclasses.storage.k8s.io"}
)
"""Kinds of Kubernetes whose generation the API server does not count."""


def _namespace(obj: JSONObject) -> None:
    obj["metadata"]["labels"] = {
        **(obj["metadata"].get("labels") or {}),
        "kubernetes.io/metadata.name": obj["metadata"]["name"],
    }
    obj["status"] = {"phase": "Active"}


def _pending(obj: JSONObject) -> None:
    obj["status"] = {"phase": "Pending"}


def _definition(obj: JSONObject) -> None:
    obj["status"] = established()


DEFAULTS: Final[dict[str, Callable[[JSONObject], None]]] = {
    "namespaces": _namespace,
    "persistentvolumeclaims": _pending,
    "pods": _pending,
    "customresourcedefinitions.apiextensions.k8s.io": _definition,
}
"""What a server gives a new object of a kind, as far as tests look at it."""


def established() -> JSONObject:
    """Return the status of a definition whose kind is served."""
    names = ("Established", "NamesAccepted")
    return {"conditions": [{"type": name, "status": "True"} for name in names]}


def generated_name(prefix: str, number: int) -> str:
    """Return a name as a server generates it: five letters behind the prefix."""
    letters = ""
    for _ in range(5):
        number, digit = divmod(number, len(_SUFFIX_LETTERS))
        letters = _SUFFIX_LETTERS[digit] + letters
    return f"{prefix[:58]}{letters}"


def field_matches(selector: str, obj: JSONObject) -> bool:
    """Return whether an object matches a field selector of equalities."""
    for term in filter(None, selector.split(",")):
        path, _, value = term.partition("=")
        found: Any = obj
        for member in path.split("."):
            found = (found or {}).get(member)
        if (found or "") != value:
            return False
    return True


def merged(target: Any, patch: Any) -> Any:
    """Return the target after a JSON merge patch; it shares nothing with either. (RFC 7386)"""
    if not isinstance(patch, dict):
        return copied({"": patch})[""]
    return _merge_into(copied(target) if isinstance(target, dict) else {}, patch)


def _merge_into(result: JSONObject, patch: JSONObject) -> JSONObject:
    for member, value in patch.items():
        if value is None:
            result.pop(member, None)
        elif isinstance(value, dict):
            former = result.get(member)
            result[member] = _merge_into(former if isinstance(former, dict) else {}, value)
        else:
            result[member] = copied({"": value})[""]
    return result


def without_version(obj: JSONObject) -> JSONObject:
    """Return an object without its resourceVersion."""
    metadata = {member: value for member, value in obj["metadata"].items() if member != "resourceVersion"}
    return {**obj, "metadata": metadata}
