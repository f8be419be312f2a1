"""The classes that a pod names: a cluster without them refuses the pod. Pure. (docs/spec: BEY 4.10)"""

from typing import Final

from pinnace.api.objects import JSONObject, text
from pinnace.plugins.protocols import ResourceIdentifier

_PRIORITY: Final = ("scheduling.k8s.io", "priorityclasses")
_RUNTIME: Final = ("node.k8s.io", "runtimeclasses")
_FIELDS: Final = {"priorityClassName": _PRIORITY, "runtimeClassName": _RUNTIME}

OFTEN_MISSING: Final = frozenset(f"{resource}.{group}" for group, resource in _FIELDS.values())
"""The additional items of restores whose absence from a backup is no warning.

Backups of Velero, of tenants, and of this program before its pods brought their classes have none. A cluster
that lacks the class too refuses the pod, with an error that names the class.
"""

_EVERY_CLUSTER_HAS: Final = "system-"
"""How the names of Kubernetes' own priority classes begin; the API server refuses them to others."""

_RAW_FIELDS: Final = tuple(f'"{field}"'.encode() for field in _FIELDS)


def may_name_classes(raw: bytes) -> bool:
    """Whether the JSON of a pod has one of the fields; cheaper than to decode it."""
    return any(field in raw for field in _RAW_FIELDS)


def classes_of(pod: JSONObject) -> list[ResourceIdentifier]:
    """The PriorityClass and the RuntimeClass that a pod names, except those of Kubernetes itself."""
    found = []
    for field, (group, resource) in _FIELDS.items():
        name = text(pod, "spec", field)
        if name and not (field == "priorityClassName" and name.startswith(_EVERY_CLUSTER_HAS)):
            found.append(ResourceIdentifier(group=group, resource=resource, namespace="", name=name))
    return found
