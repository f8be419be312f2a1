"""The objects that self-service needs in a cluster: definitions, roles, the service account. Pure.

The tenants' roles are aggregated into Kubernetes' own `admin`, `edit` and `view`: a user who may work in a
namespace may back it up. No role of a tenant can write a status, which the controllers trust. The service
account can do what the controllers do and nothing else: outside its own namespace it reads single Secrets
and namespaces, and has no other right except on the self-service kinds. (docs/spec: NAC 1, 2, 17 A8)
"""

from collections.abc import Iterable
from typing import Final

from pinnace.api import GROUP, TENANT_GROUP
from pinnace.api.kinds import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    CONFIGMAPS,
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    DELETE_BACKUP_REQUESTS,
    DOWNLOAD_REQUESTS,
    LEASES,
    NAMESPACES,
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    RESTORES,
    SECRETS,
    Kind,
)
from pinnace.api.nonadmin.definitions import nonadmin_crds
from pinnace.api.objects import JSONObject

NAME: Final = "pinnace-nonadmin"
DEPLOYMENT: Final = "non-admin-controller"
LEASE: Final = "393da43e.openshift.io"

_TENANT_KINDS: Final = (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS, NON_ADMIN_DOWNLOADS)
_EDIT: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_VIEW: Final = ("get", "list", "watch")
_COMPONENT: Final = {"component": "velero"}
_RBAC: Final = "rbac.authorization.k8s.io"


def crds() -> list[JSONObject]:
    """The definitions, with the label that uninstall looks for."""
    return [_labelled(crd) for crd in nonadmin_crds()]


def resources(namespace: str, *, account: str = NAME) -> list[JSONObject]:
    """Everything but the definitions and the process, in the order of creation.

    Args:
        namespace: the server's.
        account: the service account that gets the rights. It is created only if it is self-service's own; the
            server's, which runs self-service with `--features=NonAdmin`, exists already.
    """
    made = [*_tenant_roles(), _cluster_role(), _role(namespace)]
    if account == NAME:
        made.append(_service_account(namespace))
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    made.append(_binding("ClusterRoleBinding", "ClusterRole", {"name": f"{NAME}-{namespace}"}, NAME, subject))
    made.append(_binding("RoleBinding", "Role", {"name": NAME, "namespace": namespace}, NAME, subject))
    return [_labelled(obj) for obj in made]


def _labelled(obj: JSONObject) -> JSONObject:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **_COMPONENT}}}


def _tenant_roles() -> Iterable[JSONObject]:
    """The roles of tenants. (docs/spec: NAC 2)"""
    for kind in _TENANT_KINDS:
        names = {"editor": (_EDIT, ("admin", "edit")), "viewer": (_VIEW, ("view",))}
        if kind is NON_ADMIN_DOWNLOADS:
            names["admin"] = (("*",), ())
        for role, (verbs, aggregated) in names.items():
            labels = {f"{_RBAC}/aggregate-to-{into}": "true" for into in aggregated}
            rules = [_rule([kind.plural], verbs), _rule([f"{kind.plural}/status"], ("get",))]
            yield _rules("ClusterRole", {"name": f"{kind.singular}-{role}-role", "labels": labels}, rules)


def _cluster_role() -> JSONObject:
    """The rights that the controllers need in the namespaces of tenants."""
    plurals = _plurals(*_TENANT_KINDS)
    rules = [
        _rule(plurals, (*_VIEW, "patch", "delete")),
        _rule([NON_ADMIN_BACKUPS.plural], ("create",)),
        _rule([f"{plural}/status" for plural in plurals], ("get", "patch")),
        _rule(_plurals(SECRETS, NAMESPACES), ("get",), group=""),
    ]
    return _rules("ClusterRole", {"name": NAME}, rules)


def _role(namespace: str) -> JSONObject:
    """The rights that the controllers need in the namespace of the server."""
    work = (*_VIEW, "create", "patch", "delete")
    made = (BACKUPS, RESTORES, BACKUP_STORAGE_LOCATIONS, DELETE_BACKUP_REQUESTS, DOWNLOAD_REQUESTS)
    read = (POD_VOLUME_BACKUPS, POD_VOLUME_RESTORES, DATA_UPLOADS, DATA_DOWNLOADS)
    asked = NON_ADMIN_LOCATION_REQUESTS.plural
    rules = [
        _rule(_plurals(*made), work, group=GROUP),
        _rule(_plurals(*read), _VIEW, group=GROUP),
        _rule([asked], work),
        _rule([f"{asked}/status"], ("get", "patch")),
        _rule([SECRETS.plural], ("get", "list", "create", "patch", "delete"), group=""),
        _rule([CONFIGMAPS.plural], _VIEW, group=""),
        _rule([LEASES.plural], ("get", "create", "update", "patch"), group=LEASES.group),
    ]
    return _rules("Role", {"name": NAME, "namespace": namespace}, rules)


def _plurals(*kinds: Kind) -> list[str]:
    return [kind.plural for kind in kinds]


def _rule(names: list[str], verbs: Iterable[str], *, group: str = TENANT_GROUP) -> JSONObject:
    return {"apiGroups": [group], "resources": names, "verbs": list(verbs)}


def _rules(kind: str, metadata: JSONObject, rules: list[JSONObject]) -> JSONObject:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(kind: str, role_kind: str, metadata: JSONObject, role: str, subject: JSONObject) -> JSONObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": role},
        "subjects": [subject],
    }


def _service_account(namespace: str) -> JSONObject:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": namespace}}
