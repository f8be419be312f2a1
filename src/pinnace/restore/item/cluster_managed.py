"""Recognises objects that a cluster writes for itself. Pure. (RST 17)

No restore changes them or warns about them. An object of another cluster in their place does harm: its
certificate authority would stay trusted in `extension-apiserver-authentication`, and Service
`default/kubernetes` would lead to the ports of its API server.

Objects are recognised by what the cluster marks them with, or by names that it reserves, never by their kind
alone: a user's own object of the same kind is restored and updated. Where the cluster lets an administrator
take an object over by an annotation (`autoupdate: "false"`), it is the administrator's, be the annotation
on the object in the cluster or on the one in the backup.
"""

from collections.abc import Callable
from typing import Final

from pinnace.api.objects import JSONObject, mapping, text

_PUBLISHED_EVERYWHERE: Final = frozenset({"kube-root-ca.crt", "openshift-service-ca.crt"})
_OWN_CONFIG_MAPS: Final = frozenset(
    {
        ("kube-system", "extension-apiserver-authentication"),
        ("kube-system", "kube-apiserver-legacy-service-account-token-tracking"),
        ("kube-public", "cluster-info"),
    }
)
_ENDPOINT_CONTROLLERS: Final = frozenset(
    {"endpoint-controller", "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}
)
_MANAGED_BY: Final = ("endpoints.kubernetes.io/managed-by", "endpointslice.kubernetes.io/managed-by")
_ENDPOINTS_CHANGED: Final = "endpoints.kubernetes.io/last-change-trigger-time"

_BOOTSTRAPPING: Final = "kubernetes.io/bootstrapping"
_ROLE_UPDATES: Final = "rbac.authorization.kubernetes.io/autoupdate"
_OTHER_ROLES: Final = frozenset(
    {"admin", "cluster-admin", "edit", "extension-apiserver-authentication-reader", "view"}
)
"""The default roles and bindings whose names do not begin with `system:`."""

_FLOW_UPDATES: Final = "apf.kubernetes.io/autoupdate-spec"
_MANDATORY_FLOWS: Final = frozenset({"catch-all", "exempt"})
"""FlowSchemas and PriorityLevelConfigurations that the API server enforces whatever their annotation says."""

_AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_ADDRESS_OWNER: Final = "ipaddress.kubernetes.io/managed-by"
_ALLOCATOR: Final = "ipallocator"
_IDENTITY: Final = "apiserver.kubernetes.io/identity"
_LOCKS_OF_PARTS: Final = frozenset({"cloud-controller-manager", "kube-controller-manager", "kube-scheduler"})
_KUBELET_SIGNERS: Final = frozenset(
    {"kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"}
)
_CONTROLLER_ACCOUNTS: Final = frozenset(
    {
        "attachdetach-controller",
        "certificate-controller",
        "clusterrole-aggregation-controller",
        "cronjob-controller",
        "daemon-set-controller",
        "deployment-controller",
        "device-taint-eviction-controller",
        "disruption-controller",
        "endpoint-controller",
        "endpointslice-controller",
        "endpointslicemirroring-controller",
        "ephemeral-volume-controller",
        "expand-controller",
        "generic-garbage-collector",
        "horizontal-pod-autoscaler",
        "job-controller",
        "legacy-service-account-token-cleaner",
        "namespace-controller",
        "node-controller",
        "persistent-volume-binder",
        "pod-garbage-collector",
        "podcertificaterequestcleaner",
        "pv-protection-controller",
        "pvc-protection-controller",
        "replicaset-controller",
        "replication-controller",
        "resource-claim-controller",
        "resourcequota-controller",
        "root-ca-cert-publisher",
        "route-controller",
        "selinux-warning-controller",
        "service-account-controller",
        "service-cidrs-controller",
        "service-controller",
        "statefulset-controller",
        "storage-version-garbage-collector",
        "storage-version-migrator-controller",
        "taint-eviction-controller",
        "token-cleaner",
        "ttl-after-finished-controller",
        "ttl-controller",
        "validatingadmissionpolicy-status-controller",
        "volumeattributesclass-protection-controller",
    }
)
"""The accounts in kube-system that kube-controller-manager makes for its controllers; nothing marks them."""


def is_cluster_managed(group_resource: str, in_cluster: JSONObject, desired: JSONObject) -> bool:
    """Whether the cluster writes the whole object, so that its content is never a conflict.

    Args:
        in_cluster: the existing object.
        desired: the object as a restore would create it.
    """
    rule = _RULES.get(group_resource)
    return rule is not None and rule(in_cluster, desired)


def _config_map(in_cluster: JSONObject, _: JSONObject) -> bool:
    return _name(in_cluster) in _PUBLISHED_EVERYWHERE or _full_name(in_cluster) in _OWN_CONFIG_MAPS


def _is_of_api_server(in_cluster: JSONObject, _: JSONObject) -> bool:
    return _full_name(in_cluster) == ("default", "kubernetes")


def _endpoints(in_cluster: JSONObject, desired: JSONObject) -> bool:
    managed = any(_label(in_cluster, name) in _ENDPOINT_CONTROLLERS for name in _MANAGED_BY)
    changed = _ENDPOINTS_CHANGED in mapping(in_cluster, "metadata", "annotations")
    return managed or changed or _is_of_api_server(in_cluster, desired)


def _rbac(in_cluster: JSONObject, desired: JSONObject) -> bool:
    """A default role or binding; one with the label and a name of its own is a user's copy."""
    name = _name(in_cluster)
    return (
        _label(in_cluster, _BOOTSTRAPPING) == "rbac-defaults"
        and (name.startswith("system:") or name in _OTHER_ROLES)
        and all(_annotation(each, _ROLE_UPDATES) != "false" for each in (in_cluster, desired))
    )


def _flow(in_cluster: JSONObject, desired: JSONObject) -> bool:
    updates = _annotation(in_cluster, _FLOW_UPDATES), _annotation(desired, _FLOW_UPDATES)
    return _name(in_cluster) in _MANDATORY_FLOWS or (updates[0] == "true" and updates[1] != "false")


def _lease(in_cluster: JSONObject, _: JSONObject) -> bool:
    namespace, name = _full_name(in_cluster)
    return (
        namespace == "kube-node-lease"
        or (namespace == "kube-system" and name in _LOCKS_OF_PARTS)
        or bool(_label(in_cluster, _IDENTITY))
    )


_RULES: Final[dict[str, Callable[[JSONObject, JSONObject], bool]]] = {
    "apiservices.apiregistration.k8s.io": lambda found, _: bool(_label(found, _AUTOMANAGED)),
    "certificatesigningrequests.certificates.k8s.io": (
        lambda found, _: text(found, "spec", "signerName") in _KUBELET_SIGNERS
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": _rbac,
    "clusterroles.rbac.authorization.k8s.io": _rbac,
    "clustertrustbundles.certificates.k8s.io": (
        lambda found, _: text(found, "spec", "signerName").startswith("kubernetes.io/")
    ),
    "configmaps": _config_map,
    "endpoints": _endpoints,
    "endpointslices.discovery.k8s.io": _endpoints,
    "flowschemas.flowcontrol.apiserver.k8s.io": _flow,
    "ipaddresses.networking.k8s.io": lambda found, _: _label(found, _ADDRESS_OWNER).startswith(_ALLOCATOR),
    "leases.coordination.k8s.io": _lease,
    "priorityclasses.scheduling.k8s.io": lambda found, _: _name(found).startswith("system-"),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _flow,
    "rolebindings.rbac.authorization.k8s.io": _rbac,
    "roles.rbac.authorization.k8s.io": _rbac,
    "serviceaccounts": (
        lambda found, _: (
            found["metadata"].get("namespace") == "kube-system" and _name(found) in _CONTROLLER_ACCOUNTS
        )
    ),
    "servicecidrs.networking.k8s.io": lambda found, _: _name(found) == "kubernetes",
    "services": _is_of_api_server,
}


def _name(item: JSONObject) -> str:
    return text(item, "metadata", "name")


def _full_name(item: JSONObject) -> tuple[str, str]:
    return text(item, "metadata", "namespace"), _name(item)


def _label(item: JSONObject, name: str) -> str:
    return text(item, "metadata", "labels", name)


def _annotation(item: JSONObject, name: str) -> str:
    return text(item, "metadata", "annotations", name)
