"""Which objects a cluster writes for itself, and which are a user's own objects of the same kinds."""

from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.restore.item.cluster_managed import is_cluster_managed

RBAC = "rbac.authorization.k8s.io"
FLOWS = "flowcontrol.apiserver.k8s.io"
DEFAULT = {"kubernetes.io/bootstrapping": "rbac-defaults"}
UPDATES = "rbac.authorization.kubernetes.io/autoupdate"
FLOW_UPDATES = "apf.kubernetes.io/autoupdate-spec"


def named(name: str, namespace: str = "", *, spec: JSONObject | None = None, **metadata: Any) -> JSONObject:
    place = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **place, **metadata}, "spec": spec or {}}


THE_CLUSTERS = [
    ("configmaps", named("kube-root-ca.crt", "shop")),
    ("configmaps", named("extension-apiserver-authentication", "kube-system")),
    ("configmaps", named("kube-apiserver-legacy-service-account-token-tracking", "kube-system")),
    ("configmaps", named("cluster-info", "kube-public")),
    ("services", named("kubernetes", "default")),
    ("endpoints", named("kubernetes", "default")),
    ("endpointslices.discovery.k8s.io", named("kubernetes", "default")),
    (
        "endpointslices.discovery.k8s.io",
        named(
            "web-x",
            "shop",
            labels={"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
        ),
    ),
    (f"clusterroles.{RBAC}", named("system:node", labels=DEFAULT, annotations={UPDATES: "true"})),
    (f"clusterroles.{RBAC}", named("view", labels=DEFAULT)),
    (f"clusterrolebindings.{RBAC}", named("cluster-admin", labels=DEFAULT)),
    (f"roles.{RBAC}", named("extension-apiserver-authentication-reader", "kube-system", labels=DEFAULT)),
    (f"rolebindings.{RBAC}", named("system:controller:token-cleaner", "kube-system", labels=DEFAULT)),
    (f"flowschemas.{FLOWS}", named("probes", annotations={FLOW_UPDATES: "true"})),
    (f"flowschemas.{FLOWS}", named("exempt", annotations={FLOW_UPDATES: "false"})),
    (f"prioritylevelconfigurations.{FLOWS}", named("system", annotations={FLOW_UPDATES: "true"})),
    ("priorityclasses.scheduling.k8s.io", named("system-node-critical")),
    (
        "ipaddresses.networking.k8s.io",
        named("10.0.0.1", labels={"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}),
    ),
    ("servicecidrs.networking.k8s.io", named("kubernetes")),
    ("leases.coordination.k8s.io", named("node-1", "kube-node-lease")),
    ("leases.coordination.k8s.io", named("kube-scheduler", "kube-system")),
    (
        "leases.coordination.k8s.io",
        named("apiserver-x", "kube-system", labels={"apiserver.kubernetes.io/identity": "kube-apiserver"}),
    ),
    (
        "apiservices.apiregistration.k8s.io",
        named("v1.apps", labels={"kube-aggregator.kubernetes.io/automanaged": "onstart"}),
    ),
    (
        "certificatesigningrequests.certificates.k8s.io",
        named("csr-x", spec={"signerName": "kubernetes.io/kubelet-serving"}),
    ),
    (
        "clustertrustbundles.certificates.k8s.io",
        named("kubernetes.io:x:y", spec={"signerName": "kubernetes.io/kube-apiserver-serving"}),
    ),
    ("serviceaccounts", named("namespace-controller", "kube-system")),
]

A_USERS = [
    ("configmaps", named("extension-apiserver-authentication", "shop")),
    ("configmaps", named("coredns", "kube-system")),
    ("services", named("kubernetes", "shop")),
    ("services", named("web", "default")),
    ("endpoints", named("database", "default")),
    ("endpointslices.discovery.k8s.io", named("database-1", "default")),
    (f"clusterroles.{RBAC}", named("shop-view", labels=DEFAULT, annotations={UPDATES: "true"})),
    (f"clusterroles.{RBAC}", named("system:shop")),
    (f"roles.{RBAC}", named("reader", "kube-system", labels=DEFAULT)),
    (f"clusterrolebindings.{RBAC}", named("admins")),
    (f"flowschemas.{FLOWS}", named("shop")),
    (f"prioritylevelconfigurations.{FLOWS}", named("system", annotations={FLOW_UPDATES: "false"})),
    ("priorityclasses.scheduling.k8s.io", named("shop-critical")),
    (
        "ipaddresses.networking.k8s.io",
        named("10.0.0.9", labels={"ipaddress.kubernetes.io/managed-by": "shop"}),
    ),
    ("servicecidrs.networking.k8s.io", named("more")),
    ("leases.coordination.k8s.io", named("kube-scheduler", "shop")),
    ("leases.coordination.k8s.io", named("operator", "kube-system")),
    ("apiservices.apiregistration.k8s.io", named("v1.shop.example")),
    (
        "certificatesigningrequests.certificates.k8s.io",
        named("developer", spec={"signerName": "kubernetes.io/kube-apiserver-client"}),
    ),
    ("clustertrustbundles.certificates.k8s.io", named("shop", spec={"signerName": ""})),
    ("serviceaccounts", named("default", "kube-system")),
    ("serviceaccounts", named("namespace-controller", "shop")),
    ("deployments.apps", named("kubernetes", "default", labels=DEFAULT)),
]


def _id(value: object) -> str:
    return value if isinstance(value, str) else str(value["metadata"]["name"])  # type: ignore[index]


@pytest.mark.found("R4")
@pytest.mark.parametrize(("kind", "item"), THE_CLUSTERS, ids=_id)
def test_what_the_cluster_marks_or_names_is_its_own(kind: str, item: JSONObject) -> None:
    assert is_cluster_managed(kind, item, item)


@pytest.mark.found("R4")
@pytest.mark.parametrize(("kind", "item"), A_USERS, ids=_id)
def test_a_users_own_object_of_the_same_kind_is_not(kind: str, item: JSONObject) -> None:
    assert not is_cluster_managed(kind, item, item)


@pytest.mark.found("R4")
@pytest.mark.parametrize(
    ("kind", "name", "note"),
    [
        (f"clusterroles.{RBAC}", "edit", UPDATES),
        (f"flowschemas.{FLOWS}", "probes", FLOW_UPDATES),
    ],
)
@pytest.mark.parametrize("side", ["in the cluster", "in the backup"])
def test_what_an_administrator_took_over_is_the_administrators(
    kind: str, name: str, note: str, side: str
) -> None:
    standard = named(name, labels=DEFAULT, annotations={note: "true"})
    taken = named(name, labels=DEFAULT, annotations={note: "false"})
    pair = (taken, standard) if side == "in the cluster" else (standard, taken)

    assert is_cluster_managed(kind, standard, standard)
    assert not is_cluster_managed(kind, *pair)
