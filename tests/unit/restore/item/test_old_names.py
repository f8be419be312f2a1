"""Objects that name a mapped namespace by its old name. (docs/adr/084)"""

from pathlib import Path
from typing import Any

import orjson
import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.restore.item.namespace_references import MOST_FIELDS, naming_fields
from tests.unit.restore.preview.foreseeing import foreseer
from tests.unit.restore.world import Harness, configmap, deployment, obj, pod, volume

NAME = "kubernetes.io/metadata.name"
RBAC = "rbac.authorization.k8s.io"


def spec(**fields: Any) -> JSONObject:
    return {"spec": fields}


def container(**fields: Any) -> JSONObject:
    return spec(template={"spec": {"containers": [fields]}})


OF_CONTAINER = "spec.template.spec.containers[0]"

NAMING: dict[str, tuple[JSONObject, str]] = {
    "webhook": (
        {"webhooks": [{}, {"clientConfig": {"service": {"name": "hook", "namespace": "shop"}}}]},
        "webhooks[1].clientConfig.service.namespace",
    ),
    "webhook by URL": (
        {"webhooks": [{"clientConfig": {"url": "https://hook.shop.svc:443/v"}}]},
        "webhooks[0].clientConfig.url",
    ),
    "selector of a webhook": (
        {"webhooks": [{"namespaceSelector": {"matchLabels": {NAME: "shop"}}}]},
        f'webhooks[0].namespaceSelector.matchLabels["{NAME}"]',
    ),
    "network policy": (
        spec(ingress=[{"from": [{"namespaceSelector": {"matchLabels": {NAME: "shop"}}}]}]),
        f'spec.ingress[0].from[0].namespaceSelector.matchLabels["{NAME}"]',
    ),
    "expressions of a network policy": (
        spec(
            egress=[
                {
                    "to": [
                        {"namespaceSelector": {"matchExpressions": [{"key": NAME, "values": ["a", "shop"]}]}}
                    ]
                }
            ]
        ),
        "spec.egress[0].to[0].namespaceSelector.matchExpressions[0]",
    ),
    "cilium": (
        spec(endpointSelector={"matchLabels": {"k8s:io.kubernetes.pod.namespace": "shop"}}),
        'spec.endpointSelector.matchLabels["k8s:io.kubernetes.pod.namespace"]',
    ),
    "calico": (spec(namespaceSelector=f"{NAME} == 'shop'"), "spec.namespaceSelector"),
    "api service": (spec(service={"name": "s", "namespace": "shop"}), "spec.service.namespace"),
    "conversion webhook": (
        spec(conversion={"webhook": {"clientConfig": {"service": {"namespace": "shop"}}}}),
        "spec.conversion.webhook.clientConfig.service.namespace",
    ),
    "reference grant": (
        spec(**{"from": [{"kind": "HTTPRoute", "namespace": "shop"}]}),
        "spec.from[0].namespace",
    ),
    "route": (spec(parentRefs=[{"name": "gw", "namespace": "shop"}]), "spec.parentRefs[0].namespace"),
    "parameters of a policy binding": (
        spec(paramRef={"name": "p", "namespace": "shop"}),
        "spec.paramRef.namespace",
    ),
    "selector of a policy binding": (
        spec(matchResources={"namespaceSelector": {"matchLabels": {NAME: "shop"}}}),
        f'spec.matchResources.namespaceSelector.matchLabels["{NAME}"]',
    ),
    "expression of a policy": (
        spec(validations=[{"expression": "object.metadata.namespace != 'shop'"}]),
        "spec.validations[0].expression",
    ),
    "account in an expression": (
        spec(
            matchConditions=[{"expression": "request.userInfo.username == 'system:serviceaccount:shop:app'"}]
        ),
        "spec.matchConditions[0].expression",
    ),
    "users of a security context constraint": ({"users": ["system:serviceaccount:shop:app"]}, "users[0]"),
    "groups of a security context constraint": (
        {"groups": ["x", "system:serviceaccounts:shop"]},
        "groups[1]",
    ),
    "identity of a mesh": (
        spec(rules=[{"from": [{"source": {"principals": ["cluster.local/ns/shop/sa/app"]}}]}]),
        "spec.rules[0].from[0].source.principals[0]",
    ),
    "affinity": (
        spec(affinity={"podAntiAffinity": {"required": [{"namespaces": ["shop"]}]}}),
        "spec.affinity.podAntiAffinity.required[0].namespaces[0]",
    ),
    "service monitor": (
        spec(namespaceSelector={"matchNames": ["shop"]}),
        "spec.namespaceSelector.matchNames[0]",
    ),
    "operator group": (spec(targetNamespaces=["shop"]), "spec.targetNamespaces[0]"),
    "rule of a cluster role": (
        {"rules": [{}, {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["shop"]}]},
        "rules[1]",
    ),
    "secret of a storage class": (
        {"parameters": {"csi.storage.k8s.io/provisioner-secret-namespace": "shop"}},
        'parameters["csi.storage.k8s.io/provisioner-secret-namespace"]',
    ),
    "external name": (spec(externalName="db.shop.svc.cluster.local"), "spec.externalName"),
    "argument": (container(args=["--watch-namespace=shop"]), f"{OF_CONTAINER}.args[0]"),
    "variable": (container(env=[{"name": "WATCH_NAMESPACE", "value": "shop"}]), f"{OF_CONTAINER}.env[0]"),
    "host in a variable": (
        container(env=[{"name": "DB", "value": "pg://u:p@db-0.db.shop.svc/x"}]),
        f"{OF_CONTAINER}.env[0].value",
    ),
    "settings": ({"data": {"app.yaml": "db:\n  host: db.shop.svc\n"}}, 'data["app.yaml"]'),
    "certificate of a webhook": (
        {"metadata": {"annotations": {"cert-manager.io/inject-ca-from": "shop/cert"}}},
        'metadata.annotations["cert-manager.io/inject-ca-from"]',
    ),
}


@pytest.mark.found("O11", "O35")
@pytest.mark.parametrize(("item", "field"), NAMING.values(), ids=NAMING)
def test_what_names_a_namespace_is_found(item: JSONObject, field: str) -> None:
    assert naming_fields("things.example.org", item, {"shop"}) == [field]
    assert naming_fields("things.example.org", item, {"sho", "shop-2", "hop"}) == []
    renamed = orjson.loads(orjson.dumps(item).replace(b"shop", b"shop-2"))
    assert naming_fields("things.example.org", renamed, {"shop"}) == []


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        ("x", {"metadata": {"namespace": "shop", "labels": {"namespace": "shop"}}}),
        ("x", {"metadata": {"annotations": {"meta.helm.sh/release-namespace": "shop"}}}),
        ("x", {"metadata": "shop", "status": {"namespace": "shop"}}),
        ("x", spec(name="shop", image="registry/shop", value="shop", matchLabels={"app": "shop"})),
        ("x", spec(host="shop.svc", url="https://shop.example.org/ns/shops/sa", text="a 'shop'")),
        ("x", {"rules": [{"resources": ["configmaps"], "resourceNames": ["shop"]}]}),
        (f"clusterrolebindings.{RBAC}", {"subjects": [{"kind": "ServiceAccount", "namespace": "shop"}]}),
        ("persistentvolumes", spec(claimRef={"namespace": "shop", "name": "c"})),
        ("endpoints", {"subsets": [{"addresses": [{"targetRef": {"namespace": "shop"}}]}]}),
        ("ipaddresses.networking.k8s.io", spec(parentRef={"resource": "services", "namespace": "shop"})),
        ("secrets", {"data": {"namespace": "shop"}, "type": "Opaque"}),
    ],
)
def test_what_only_looks_like_it_or_is_mapped_is_not(kind: str, item: JSONObject) -> None:
    assert naming_fields(kind, item, {"shop"}) == []


def test_the_secrets_of_a_volume_are_not_mapped() -> None:
    item = spec(claimRef={"namespace": "shop"}, csi={"nodePublishSecretRef": {"namespace": "shop"}})

    assert naming_fields("persistentvolumes", item, {"shop"}) == ["spec.csi.nodePublishSecretRef.namespace"]


def test_hostile_objects_cost_little() -> None:
    deep: Any = {"namespace": "shop"}
    for _ in range(900):
        deep = {"a-b": deep}
    (shown,) = naming_fields("x", {"spec": deep}, {"shop"})
    assert len(shown) < 300

    many = {"spec": {"namespaces": ["shop"] * (MOST_FIELDS + 1)}}
    assert len(naming_fields("x", many, {"shop"})) == MOST_FIELDS

    long = {
        "data": {"a": ".a" * 500_000 + "-" * 500_000 + "namespace" * 100_000, "expression": "'" * 500_000}
    }
    assert naming_fields("x", long, {"shop"}) == []


def api_service(namespace: str) -> JSONObject:
    service = {"name": "api", "namespace": namespace}
    return obj("APIService", "v1.x.io", api_version="apiregistration.k8s.io/v1", spec={"service": service})


MAPPING = {"ns-1": "copy", "ns-2": "other"}


@pytest.mark.found("O11", "O35")
async def test_one_warning_names_what_still_names_the_old_namespace(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [
        api_service("ns-1"),
        configmap("dsn", data={"a": "db.ns-1.svc", "b": "x.ns-2.svc"}),
        configmap("plain"),
        deployment(
            "web", "ns-2", spec={"template": {"spec": {"containers": [{"args": ["-namespace=ns-1"]}]}}}
        ),
    ]
    expected = (
        "3 objects still name a mapped namespace by its old name, and so the original (ns-1 is now copy, ns-2"
        " is now other). Change what should mean the copy, or restore it with rules of"
        " --resource-modifier-configmap: apiservices.apiregistration.k8s.io/v1.x.io"
        " (spec.service.namespace); configmaps/copy/dsn (data.a and 1 more); deployments.apps/other/web"
        " (spec.template.spec.containers[0].args[0])"
    )

    preview = await foreseer(harness, tmp_path, monkeypatch)(*items, namespace_mapping=MAPPING)
    assert preview.results.warnings.velero == [expected]
    first = await harness.restore(*items, namespace_mapping=MAPPING)
    assert first.warnings.velero == [expected]
    again = await harness.restore(*items, namespace_mapping=MAPPING)
    assert again.warnings.velero == [expected], "they are still there"
    assert (await harness.restore(*items)).empty, "without a mapping, names are right"


async def test_what_was_changed_in_the_cluster_is_not_said_again(harness: Harness) -> None:
    harness.world.put(api_service("copy"))

    results = await harness.restore(api_service("ns-1"), configmap("c"), namespace_mapping={"ns-1": "copy"})

    assert results.warnings.velero == []
    assert results.warnings.count == 1, "it differs"


async def test_a_trial_in_scratch_namespaces_says_nothing(harness: Harness) -> None:
    harness.restore_labels = {labels.VERIFICATION: "b"}

    results = await harness.restore(
        configmap("dsn", data={"a": "db.ns-1.svc"}), namespace_mapping={"ns-1": "pinnace-verify-1"}
    )

    assert results.empty


async def test_pods_are_not_named_beside_their_owners(harness: Harness) -> None:
    naming = {"containers": [{"name": "c", "args": ["-namespace=ns-1"]}]}
    owned, alone = pod("owned", spec=naming), pod("alone", spec=naming)
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "controller": True}]

    results = await harness.restore(owned, alone, namespace_mapping={"ns-1": "copy"})

    (warning,) = results.warnings.velero
    assert "1 object still names" in warning
    assert "pods/copy/alone" in warning


async def test_many_are_counted_and_the_first_named(harness: Harness) -> None:
    items = [configmap(f"c-{number:03}", data={"namespace": "ns-1"}) for number in range(120)]

    results = await harness.restore(*items, namespace_mapping={"ns-1": "copy"})

    (warning,) = results.warnings.velero
    assert warning.startswith("120 objects still name")
    assert warning.endswith("; and 20 more, see the log")


async def test_names_that_are_swapped_are_mapped_and_not_old(harness: Harness) -> None:
    claimed = volume("v", spec={"claimRef": {"namespace": "ns-1", "name": "c"}, "nfs": {"server": "s"}})
    subjects = [{"kind": "ServiceAccount", "name": "sa", "namespace": "ns-1"}]
    binding = obj("ClusterRoleBinding", "b", api_version=f"{RBAC}/v1", subjects=subjects)

    results = await harness.restore(
        claimed,
        binding,
        obj("PersistentVolumeClaim", "c", "ns-1", spec={"volumeName": "v"}),
        configmap("c", "ns-2"),
        namespace_mapping={"ns-1": "ns-2", "ns-2": "ns-1"},
    )

    assert not any("old name" in each for each in results.warnings.velero)
