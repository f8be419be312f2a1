"""The rights that `install` gives the server: all, or those it uses. Pure. (docs/spec: CLI 11.2, SRV 15)"""

from typing import Any, Final

from pinnace.api.objects import JSONObject
from pinnace.csi.snapshots import FEATURE as CSI_FEATURE

RBAC: Final = "rbac.authorization.k8s.io"
ACCOUNT: Final = "velero"
ALL_RIGHTS: Final = "cluster-admin"

_OBJECTS = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "create", "patch"]}
"""Every object can be backed up and restored. A restore patches existing objects where that is safe; no run
deletes or replaces any."""

_DISCOVERY = {
    "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/version"],
    "verbs": ["get"],
}

_SNAPSHOTS = {
    "apiGroups": ["snapshot.storage.k8s.io"],
    "resources": ["volumesnapshots", "volumesnapshotcontents"],
    "verbs": ["watch", "delete"],
}

_NODE_AGENT = {
    "apiGroups": [""],
    "resources": ["pods"],
    "verbs": ["watch"],
}

_OWN_NAMESPACE = (
    {"apiGroups": ["velero.io"], "resources": ["*"], "verbs": ["watch", "delete"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["delete"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"]},
)
"""The rights in the server's own namespace, beside those everywhere. Secrets hold the keys of encrypted
backups while these wait for operations."""

_MOVED_DATA = {
    "apiGroups": [""],
    "resources": ["pods", "persistentvolumeclaims", "secrets", "configmaps"],
    "verbs": ["delete"],
}
"""Node agents move the data of volumes through pods and claims in their own namespace, and drivers may need
copies of Secrets and ConfigMaps beside these claims."""

_REPLACED_VOLUMES = {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["delete"]}
"""A restored volume may get another object than the one that it was written through."""


def cluster_wide_name(namespace: str) -> str:
    """The name of the ClusterRoleBinding, and of the ClusterRole if there is one."""
    return ACCOUNT if namespace == "velero" else f"{ACCOUNT}-{namespace}"


def all_rights(namespace: str) -> list[JSONObject]:
    """The binding that lets the ServiceAccount do everything, as that of the compatible install does."""
    return [_cluster_role_binding(namespace, ALL_RIGHTS)]


def used_rights(namespace: str, *, features: str, node_agent: bool) -> list[JSONObject]:
    """Roles and bindings that let the ServiceAccount do only what the server does.

    These rights still include reading every Secret and creating every object. They do not include deleting
    and replacing in other namespaces, acting as other users, and granting rights that the server itself
    lacks: the cluster refuses a restored role that has such rights.
    """
    name = cluster_wide_name(namespace)
    rules, own_rules = [_OBJECTS, _DISCOVERY], list(_OWN_NAMESPACE)
    if CSI_FEATURE in features.split(","):
        rules.append(_SNAPSHOTS)
    if node_agent:
        rules += [_NODE_AGENT, _REPLACED_VOLUMES]
        own_rules.append(_MOVED_DATA)
    return [
        _object("ClusterRole", {"name": name}, rules=rules),
        _cluster_role_binding(namespace, name),
        _object("Role", {"name": ACCOUNT, "namespace": namespace}, rules=own_rules),
        _object(
            "RoleBinding",
            {"name": ACCOUNT, "namespace": namespace},
            roleRef={"apiGroup": RBAC, "kind": "Role", "name": ACCOUNT},
            subjects=_subjects(namespace),
        ),
    ]


def _cluster_role_binding(namespace: str, role: str) -> JSONObject:
    return _object(
        "ClusterRoleBinding",
        {"name": cluster_wide_name(namespace)},
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        subjects=_subjects(namespace),
    )


def _subjects(namespace: str) -> list[JSONObject]:
    return [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]


def _object(kind: str, metadata: JSONObject, **members: Any) -> JSONObject:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **members}
