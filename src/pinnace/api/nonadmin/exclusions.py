"""The kinds that self-service leaves out of tenants' backups and restores. Pure.

(docs/spec: NAC 6.5, 17 A13)
"""

from typing import Final

from pinnace.api import kinds

OWN_KINDS: Final = (
    "nonadminbackups",
    "nonadminrestores",
    "nonadminbackupstoragelocations",
    "securitycontextconstraints",
    "clusterroles",
    "clusterrolebindings",
    "priorityclasses",
    "customresourcedefinitions",
    "virtualmachineclusterinstancetypes",
    "virtualmachineclusterpreferences",
)
"""Kinds that are never in a tenant's backup, in this order."""

ALWAYS_EXCLUDED: Final = (*OWN_KINDS, "nonadmindownloadrequests", "runtimeclasses")
"""Pinnace's own kind, and the class that pods bring along, like their priority class."""

NAMESPACED_OWN_KINDS: Final = (
    "nonadminbackups",
    "nonadminrestores",
    "nonadminbackupstoragelocations",
    "nonadmindownloadrequests",
)
CLUSTER_OWN_KINDS: Final = tuple(kind for kind in ALWAYS_EXCLUDED if kind not in NAMESPACED_OWN_KINDS)
"""The same kinds by scope, for specs that filter each scope by its own lists. (docs/spec: NAC 6.5)"""

GUARDED_KINDS: Final = (
    "roles",
    "rolebindings",
    kinds.RESOURCE_QUOTAS.group_resource,
    kinds.LIMIT_RANGES.group_resource,
    kinds.ENDPOINTS.group_resource,
    kinds.ENDPOINT_SLICES.group_resource,
)
"""Kinds that Kubernetes' role `edit` may not write. A tenant's restore excludes them by name, so that a
server that does not check the role leaves them out too. (docs/spec: NAC 17 A36)"""

UNTRUSTED_EXCLUDED: Final = (*ALWAYS_EXCLUDED, *GUARDED_KINDS)
"""Kinds that are never restored from a tenant's bucket, as its owner can write the tarball: they grant
rights, lift limits, or direct traffic to freely chosen addresses, and the role `edit` may not write them."""

SNAPSHOT_KINDS: Final = kinds.group_resources(
    kinds.VOLUME_SNAPSHOTS, kinds.VOLUME_SNAPSHOT_CONTENTS, kinds.VOLUME_SNAPSHOT_CLASSES
)
"""Kinds that name snapshots in the storage system, which can be those of any namespace. (NAC 17 A35)"""
