"""The priority class that a pod names: a cluster without it refuses the pod. Pure. (docs/spec: BEY 4.10)"""

from typing import Final

from pinnace.api.objects import JSONObject, text
from pinnace.plugins.protocols import ResourceIdentifier

_GROUP: Final = "scheduling.k8s.io"
_RESOURCE: Final = "priorityclasses"

OFTEN_MISSING: Final = frozenset({f"{_RESOURCE}.{_GROUP}"})
"""The additional items of restores whose absence from a backup is no warning.

Backups of Velero, of tenants, and of this program before its pods brought their class have none. A cluster
that lacks the class too refuses the pod, with an error that names the class.
"""

_EVERY_CLUSTER_HAS: Final = "system-"
"""How the names of Kubernetes' own classes begin; the API server refuses such names to all others."""


def priority_class_of(pod: JSONObject) -> list[ResourceIdentifier]:
    """The class, or nothing if the pod names none or one of Kubernetes itself."""
    name = text(pod, "spec", "priorityClassName")
    if not name or name.startswith(_EVERY_CLUSTER_HAS):
        return []
    return [ResourceIdentifier(group=_GROUP, resource=_RESOURCE, namespace="", name=name)]
