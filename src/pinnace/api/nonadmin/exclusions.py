"""The kinds that self-service keeps out of tenants' backups, and out of what tenants can have written. Pure.

(docs/spec: NAC 6.5, 17 A13)
"""

from typing import Final

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
"""Never in a tenant's backup, in this order."""

ALWAYS_EXCLUDED: Final = (*OWN_KINDS, "nonadmindownloadrequests")

GUARDED_KINDS: Final = (
    "roles",
    "rolebindings",
    "resourcequotas",
    "limitranges",
    "endpoints",
    "endpointslices.discovery.k8s.io",
)
"""Kinds that Kubernetes' role `edit` may not write. A tenant's restore excludes them by name, so that a
server that does not look at the role leaves them out as well. (docs/spec: NAC 17 A36)"""

UNTRUSTED_EXCLUDED: Final = (*ALWAYS_EXCLUDED, *GUARDED_KINDS)
"""Never restored from a tenant's bucket, whose owner wrote the tarball: what grants or lifts limits, and what
leads traffic to addresses of one's choice, which the role `edit` may not write."""

SNAPSHOT_KINDS: Final = (
    "volumesnapshots.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshotclasses.snapshot.storage.k8s.io",
)
"""With the names of snapshots in the storage system, which are anybody's. (docs/spec: NAC 17 A35)"""
