"""Objects that are in the cluster already."""

import copy
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.kube.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotSent,
    ServerFault,
    TooManyRequests,
)
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput
from pinnace.restore.item.conflicts import comparable, is_same, merged_service_account, only_leaves_out
from pinnace.restore.item.deciding import WARNING_DIFFERENT
from pinnace.restore.item.normal_form import normal_forms
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import read_rules
from tests.unit.restore.world import (
    Harness,
    claim,
    configmap,
    deployment,
    discovery,
    obj,
    pod,
)

FIELDS = st.sampled_from(
    [
        *("spec", "metadata", "labels", "annotations", "name", "ports", "nodePort", "clusterIP", "volumes"),
        *("containers", "volumeMounts", "tolerations", "initContainers", "template", "selector", "claimRef"),
        *("secrets", "volumeName", "port", "protocol", "data"),
    ]
)
LABELS = {"velero.io/backup-name": "backup-1", "velero.io/restore-name": "restore-1"}


def account(**fields: Any) -> Any:
    return obj("ServiceAccount", "sa-1", "ns-1", **fields)


@pytest.mark.spec("RST-043")
async def test_an_identical_service_account_is_left_alone(harness: Harness) -> None:
    harness.world.put(account())

    results = await harness.restore(account())

    assert results.empty
    assert harness.world.patch_bodies == []
    assert "labels" not in harness.world.item("serviceaccounts", "ns-1", "sa-1")["metadata"]


@pytest.mark.spec("RST-044")
async def test_secrets_of_the_backup_are_appended_to_a_service_account(harness: Harness) -> None:
    harness.world.put(account())

    results = await harness.restore(
        account(secrets=[{"name": "secret-1"}], imagePullSecrets=[{"name": "pull-secret-1"}])
    )

    assert results.empty
    stored = harness.world.item("serviceaccounts", "ns-1", "sa-1")
    assert stored["secrets"] == [{"name": "secret-1"}]
    assert stored["imagePullSecrets"] == [{"name": "pull-secret-1"}]
    assert "labels" not in stored["metadata"]


@pytest.mark.spec("RST-045")
def test_existing_labels_win_and_missing_ones_are_added() -> None:
    merged = merged_service_account(account(labels={"k": "v1"}), account(labels={"k": "v2", "l": "w"}))
    assert merged["metadata"]["labels"] == {"k": "v1", "l": "w"}


def test_merged_secrets_keep_the_order_and_come_once() -> None:
    merged = merged_service_account(
        account(secrets=[{"name": "b"}], automountServiceAccountToken=True),
        account(secrets=[{"name": "c"}, {"name": "b"}, {"name": "a"}], automountServiceAccountToken=False),
    )
    assert merged["secrets"] == [{"name": "b"}, {"name": "c"}, {"name": "a"}]
    assert merged["automountServiceAccountToken"] is True


async def test_a_merge_that_meets_a_newer_account_starts_again(harness: Harness) -> None:
    stored = harness.world.put(account(secrets=[{"name": "old"}]))
    patch, attempts = harness.world.patch, []

    async def meeting_a_controller(resource: Any, name: str, body: Any, namespace: str | None = None) -> Any:
        attempts.append(body["metadata"]["resourceVersion"])
        if len(attempts) == 1:
            stored["secrets"].append({"name": "from-controller"})
            stored["metadata"]["resourceVersion"] = "99"
            raise Conflict(409, reason="Conflict", message="the object has been modified")
        return await patch(resource, name, body, namespace)

    harness.world.patch = meeting_a_controller  # type: ignore[method-assign,assignment]
    results = await harness.restore(account(secrets=[{"name": "new"}]))

    assert results.empty
    assert attempts == ["1", "99"]
    names = [entry["name"] for entry in harness.world.item("serviceaccounts", "ns-1", "sa-1")["secrets"]]
    assert names == ["old", "from-controller", "new"]


async def test_a_merge_that_fails_is_a_warning(harness: Harness) -> None:
    harness.world.put(account())

    async def refuse(*_: Any) -> Any:
        raise Forbidden(403, reason="Forbidden", message="you may not patch")

    harness.world.patch = refuse  # type: ignore[method-assign,assignment]
    results = await harness.restore(account(labels={"a": "b"}))

    (message,) = results.warnings.namespaces["ns-1"]
    assert "you may not patch" in message
    assert results.errors.count == 0


@pytest.mark.spec("RST-046")
async def test_what_the_server_adds_makes_no_difference(harness: Harness) -> None:
    there = configmap("cm", data={"a": "b"}, labels={"velero.io/backup-name": "older", "x": "y"})
    there["metadata"] |= {"uid": "u", "resourceVersion": "5", "managedFields": [], "generation": 2}
    harness.world.put(there)

    results = await harness.restore(configmap("cm", data={"a": "b"}, labels={"x": "y"}))

    assert results.empty


@pytest.mark.spec("RST-047")
async def test_other_data_is_one_warning_and_the_object_stays(harness: Harness) -> None:
    before = harness.world.put(configmap("cm", "m1", data={"a": "theirs"}))

    results = await harness.restore(configmap("cm", data={"a": "ours"}), namespace_mapping={"ns-1": "m1"})

    assert results.warnings.namespaces == {
        "m1": [
            'could not restore, configmaps "cm" already exists. Warning: the in-cluster version is '
            "different than the backed-up version."
        ]
    }
    assert results.warnings.count == 1
    assert harness.world.item("configmaps", "m1", "cm") == before


async def test_an_existing_object_that_cannot_be_read_is_a_warning(harness: Harness) -> None:
    harness.world.put(configmap("cm"))
    harness.world.refuse("get", ("configmaps", "ns-1", "cm"), Forbidden(403, message="you may not look"))

    results = await harness.restore(configmap("cm"))

    assert "you may not look" in results.warnings.namespaces["ns-1"][0]
    assert results.errors.count == 0


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"cpu": "1000m"}, {"cpu": "1"}, False),
        ({"a": None}, {}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": [0]}, {"a": [False]}, False),
        ({"a": {"b": [1, {"c": "d"}]}}, {"a": {"b": [1, {"c": "d"}]}}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ],
)
def test_specs_are_compared_strictly(left: Any, right: Any, same: bool) -> None:
    in_cluster = comparable(pod("p", spec=left), LABELS)
    assert is_same(in_cluster, pod("p", spec=right, labels=LABELS)) is same


def test_leftovers_of_typed_clients_make_no_difference() -> None:
    desired = pod("p", labels=LABELS, status={})
    desired["metadata"]["creationTimestamp"] = None

    assert is_same(comparable(pod("p"), LABELS), desired)


def test_a_token_that_the_cluster_filled_in_makes_no_difference() -> None:
    secret_type = "kubernetes.io/service-account-token"
    uid = {"kubernetes.io/service-account.name": "sa", "kubernetes.io/service-account.uid": "u"}
    there = obj("Secret", "s", "ns-1", type=secret_type, data={"token": "x"}, annotations=uid)
    name_only = {"kubernetes.io/service-account.name": "sa"}
    desired = obj("Secret", "s", "ns-1", type=secret_type, data={}, annotations=name_only, labels=LABELS)

    assert is_same(comparable(there, LABELS), desired)
    assert not is_same(comparable(there | {"type": "Opaque"}, LABELS), desired | {"type": "Opaque"})


REFUSALS = {
    "quota": Forbidden(403, reason="Forbidden", message="exceeded quota: few, requested: configmaps=1"),
    "webhook": BadRequest(400, reason="BadRequest", message='admission webhook "w" denied the request'),
    "webhook-down": ServerFault(500, reason="InternalError", message='failed calling webhook "w"'),
    "invalid": Invalid(422, reason="Invalid", message="spec is invalid"),
    "too-many": TooManyRequests(429, message="slow down"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
async def test_an_identical_object_that_is_refused_for_another_reason_is_no_error(
    harness: Harness, refusal: KubeError
) -> None:
    harness.world.put(configmap("same", data={"a": "b"}))
    harness.world.put(configmap("other", data={"a": "theirs"}))
    for name in ("same", "other", "missing"):
        harness.world.refuse("create", ("configmaps", "ns-1", name), refusal)

    results = await harness.restore(
        configmap("same", data={"a": "b"}),
        configmap("other", data={"a": "b"}),
        configmap("missing", data={"a": "b"}),
    )

    assert results.errors.namespaces == {"ns-1": [f"error restoring configmaps/ns-1/missing: {refusal}"]}
    assert results.warnings.namespaces == {"ns-1": [WARNING_DIFFERENT.format(error=refusal)]}


@pytest.mark.parametrize("refusal", [None, REFUSALS["quota"]], ids=["exists", "quota"])
async def test_an_object_that_is_being_deleted_is_an_error_though_it_is_the_same(
    harness: Harness, refusal: KubeError | None
) -> None:
    stored = harness.world.put(configmap("cm"))
    stored["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    if refusal is not None:
        harness.world.refuse("create", ("configmaps", "ns-1", "cm"), refusal)

    results = await harness.restore(configmap("cm"))

    assert results.errors.namespaces["ns-1"] == [
        "error restoring configmaps/ns-1/cm: it exists but is being deleted; restore it again when it is gone"
    ]


async def test_a_server_that_cannot_be_reached_is_not_asked_once_more(harness: Harness) -> None:
    harness.world.put(configmap("cm"))
    harness.world.refuse("create", ("configmaps", "ns-1", "cm"), NotSent("connection refused"))

    results = await harness.restore(configmap("cm"))

    assert results.errors.namespaces["ns-1"] == ["error restoring configmaps/ns-1/cm: connection refused"]
    assert [key for key in harness.world.gets if key[0] == "configmaps"] == []


def service(name: str, **spec: Any) -> Any:
    ports = spec.pop("ports", [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}])
    return obj("Service", name, "ns-1", spec={"ports": ports, **spec})


def two_ports(*node_ports: int) -> Any:
    return [
        {"name": name, "port": port, "protocol": "TCP", "nodePort": node_port}
        for name, port, node_port in zip(("a", "b"), (80, 81), node_ports, strict=True)
    ]


SERVICES: dict[str, Any] = {
    "cluster-ip": service("s", type="ClusterIP", clusterIP="10.0.0.5", clusterIPs=["10.0.0.5"]),
    "headless": service("s", type="ClusterIP", clusterIP="None", clusterIPs=["None"]),
    "node-port": service("s", type="NodePort", clusterIP="10.0.0.6", ports=two_ports(30001, 30002)),
    "load-balancer": service("s", type="LoadBalancer", healthCheckNodePort=31000, ports=two_ports(1, 2)),
    "dual-stack": service("s", clusterIP="10.0.0.7", clusterIPs=["10.0.0.7", "fd00::7"]),
    "external-name": obj("Service", "s", "ns-1", spec={"type": "ExternalName", "externalName": "x.org"}),
}


@pytest.mark.parametrize("item", SERVICES.values(), ids=SERVICES)
async def test_a_service_restored_onto_itself_is_the_same(harness: Harness, item: Any) -> None:
    harness.world.put(item)

    assert (await harness.restore(item)).empty


@pytest.mark.parametrize("item", SERVICES.values(), ids=SERVICES)
async def test_a_service_with_other_addresses_of_the_cluster_is_the_same(harness: Harness, item: Any) -> None:
    """As after a first restore: the fields that the cluster set are not in the backup."""
    restored = copy.deepcopy(item)
    spec = restored["spec"]
    if spec.get("clusterIP") not in (None, "None"):
        spec |= {"clusterIP": "10.9.9.9", "clusterIPs": ["10.9.9.9"]}
    for port in spec.get("ports", []):
        if "nodePort" in port:
            port["nodePort"] += 100
    spec.get("ports", []).reverse()
    harness.world.put(restored)

    assert (await harness.restore(item)).empty


@pytest.mark.parametrize(
    ("field", "value"),
    [("selector", {"app": "x"}), ("ports", [{"name": "http", "port": 81}]), ("clusterIP", "None")],
)
async def test_a_service_that_was_changed_is_different(harness: Harness, field: str, value: Any) -> None:
    item = SERVICES["cluster-ip"]
    harness.world.put(item | {"spec": item["spec"] | {field: value}})

    assert (await harness.restore(item)).warnings.count == 1


async def test_a_node_port_that_the_restore_keeps_is_compared(harness: Harness) -> None:
    harness.world.put(service("s", type="NodePort", ports=two_ports(30001, 30002)))

    results = await harness.restore(
        service("s", type="NodePort", ports=two_ports(30001, 30003)), preserve_node_ports=True
    )

    assert results.warnings.count == 1


def test_what_backups_and_restores_of_volumes_note_on_a_claim_makes_no_difference() -> None:
    notes = {"velero.io/volume-snapshot-name": "s", "velero.io/backup-name": "b"}
    stored = obj("PersistentVolumeClaim", "c", "ns-1", spec={"storageClassName": "s"})
    stored["metadata"]["labels"] = {"velero.io/volume-snapshot-name": "s", "app": "db"}
    stored["metadata"]["annotations"] = notes | {"velero.io/data-upload-name": "velero/b-1", "mine": "1"}
    live = copy.deepcopy(stored)
    live["metadata"] |= {"labels": {"app": "db"}, "annotations": {"mine": "1"}}
    live["spec"]["selector"] = {"matchLabels": {"velero.io/dynamic-pv-restore": "ns-1.c.x"}}

    same = normal_forms("persistentvolumeclaims", live, stored)
    live["metadata"]["annotations"]["mine"] = "2"
    different = normal_forms("persistentvolumeclaims", live, stored)

    assert same[0] == same[1]
    assert different[0] != different[1]


async def test_defaults_of_a_newer_server_make_no_difference(harness: Harness) -> None:
    def with_defaults(item: Any) -> Any:
        return item | {"spec": {"strategy": "RollingUpdate", **item["spec"]}}

    harness.world.admit = with_defaults
    harness.world.put(with_defaults(deployment("same", spec={"replicas": 1})))
    harness.world.put(deployment("other", spec={"replicas": 1, "strategy": "Recreate"}))

    results = await harness.restore(
        deployment("same", spec={"replicas": 1}), deployment("other", spec={"replicas": 1})
    )

    assert list(results.warnings.namespaces) == ["ns-1"]
    (warning,) = results.warnings.namespaces["ns-1"]
    assert '"other" already exists' in warning


async def test_no_change_is_simulated_at_a_server_that_may_store_it(harness: Harness) -> None:
    """An aggregated API need not know `dryRun`; a kind with a definition is served by Kubernetes itself."""
    harness.discovery = discovery(("aggregated.io", "v1", "things", "Thing", True))
    harness.world.put(obj("Thing", "t", "ns-1", api_version="aggregated.io/v1"), "things.aggregated.io")
    asked: list[str] = []
    harness.world.admit = lambda item: asked.append("simulated") or item  # type: ignore[func-returns-value]
    wanted = obj("Thing", "t", "ns-1", api_version="aggregated.io/v1", spec={"a": 1})

    results = await harness.restore(
        files={"resources/things.aggregated.io/namespaces/ns-1/t.json": orjson.dumps(wanted)}
    )

    assert results.warnings.count == 1
    assert asked == []


async def test_objects_that_the_cluster_writes_are_never_a_conflict(harness: Harness) -> None:
    harness.world.put(configmap("kube-root-ca.crt", data={"ca.crt": "of this cluster"}))

    assert (await harness.restore(configmap("kube-root-ca.crt", data={"ca.crt": "of the old one"}))).empty


ODD_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=20,
)
KINDS = {
    "services": "Service",
    "pods": "Pod",
    "jobs.batch": "Job",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "serviceaccounts": "ServiceAccount",
    "configmaps": "ConfigMap",
}


@given(kind=st.sampled_from(sorted(KINDS)), body=st.dictionaries(FIELDS, ODD_VALUES, max_size=6))
def test_whatever_an_object_holds_it_is_the_same_as_itself(kind: str, body: dict[str, Any]) -> None:
    item = {**body, "apiVersion": "v1", "kind": KINDS[kind], "metadata": {"name": "x"}}

    assert is_same(*normal_forms(kind, comparable(item, LABELS), comparable(item, LABELS)))


FULL: dict[str, Any] = {
    "services": service("s", type="NodePort", selector={"a": "b"}, ports=two_ports(30001, 30002)),
    "pods": pod("p", spec={"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v"}]}]}),
    "jobs.batch": obj("Job", "j", "ns-1", api_version="batch/v1", spec={"parallelism": 1, "completions": 2}),
    "persistentvolumeclaims": obj("PersistentVolumeClaim", "c", "ns-1", spec={"storageClassName": "s"}),
    "persistentvolumes": obj("PersistentVolume", "v", spec={"csi": {"volumeHandle": "h"}}),
    "configmaps": configmap("c", data={"a": "b"}, labels={"x": "y"}, annotations={"m": "n"}),
}


def leaves(item: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything that is neither an object nor a list."""
    members = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
    for key, value in members:
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


CHANGES = [
    (kind, path)
    for kind, item in FULL.items()
    for path in leaves(item)
    if path[0] in ("spec", "data") or path[:2] in (("metadata", "labels"), ("metadata", "annotations"))
]


@pytest.mark.parametrize(("kind", "path"), CHANGES, ids=[".".join(map(str, (k, *p))) for k, p in CHANGES])
@pytest.mark.parametrize("how", ["changed", "gone", "added"])
def test_a_single_change_is_found(kind: str, path: tuple[Any, ...], how: str) -> None:
    changed = copy.deepcopy(FULL[kind])
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    if how == "added":
        holder[f"{path[-1]}2"] = "new"
    elif how == "gone":
        del holder[path[-1]]
    else:
        holder[path[-1]] = "another" if isinstance(holder[path[-1]], str) else 77
    desired = comparable(FULL[kind], LABELS)

    assert not is_same(*normal_forms(kind, comparable(changed, LABELS), desired))


@pytest.mark.parametrize("levels", [375, 600, 900, 5000])
def test_an_object_is_the_same_as_itself_however_deeply_it_is_nested(levels: int) -> None:
    def deep(end: str) -> Any:
        value: Any = end
        for _ in range(levels):
            value = [{"a": value}]
        return obj("Widget", "w", "ns-1", spec={"a": value})

    def same(end: str) -> bool:
        forms = normal_forms(
            "widgets.example.io", comparable(deep("x"), LABELS), comparable(deep(end), LABELS)
        )
        return is_same(*forms)

    assert same("x")
    assert not same("y")


DIFFERS = "the in-cluster version is different"


@pytest.mark.parametrize(
    "patch",
    ["{operation: replace, path: /data/a, value: new}", "{operation: remove, path: /data/a}"],
    ids=["changes", "only removes"],
)
async def test_what_modifiers_change_is_no_longer_the_same_as_the_backup(
    harness: Harness, patch: str
) -> None:
    rules = f"""
version: v1
resourceModifierRules:
- conditions: {{groupResource: configmaps}}
  patches: [{patch}]
"""
    stored = configmap("cm", data={"a": "1", "b": "2"})
    modifiers = ResourceModifiers(read_rules({"data": {"rules": rules}}))
    harness.request_fields = {"modifiers": modifiers}
    harness.world.put(copy.deepcopy(stored))

    (warning,) = (await harness.restore(stored)).warnings.namespaces["ns-1"]
    assert DIFFERS in warning

    assert (await harness.restore(stored, existing_resource_policy="update")).empty
    assert harness.world.item("configmaps", "ns-1", "cm")["data"].get("a") in ("new", None)


async def test_an_image_that_was_renamed_differs_from_the_backup(harness: Harness) -> None:
    containers = [{"name": "web", "image": "old.example.org/web:1"}]
    stored = deployment("web", spec={"template": {"spec": {"containers": containers}}})
    names = {"velero.io/plugin-config": "", "velero.io/change-image-name": "RestoreItemAction"}
    harness.world.put(
        configmap("names", "velero", labels=names, data={"a": "old.example.org,new.example.org"})
    )
    harness.world.put(copy.deepcopy(stored))

    (warning,) = (await harness.restore(stored)).warnings.namespaces["ns-1"]

    assert DIFFERS in warning


class Annotate:
    """An action that writes an annotation."""

    name = "example.org/annotate"

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector()

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        given.item["metadata"]["annotations"] = {"by": "action"}
        return RestoreItemOutput(item=given.item)


@pytest.mark.parametrize(
    ("item", "differs"),
    [
        (configmap("cm", data={"a": "1"}), True),
        # Restores tie these to other volumes: an object that is as in the backup is no conflict.
        (claim("data", spec={"accessModes": ["ReadWriteOnce"]}), False),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else None,
)
async def test_what_an_action_adds_is_a_difference_unless_every_restore_does(
    harness: Harness, item: dict[str, Any], *, differs: bool
) -> None:
    harness.actions = [Annotate()]
    harness.world.put(copy.deepcopy(item))

    results = await harness.restore(item)

    assert bool(results.warnings.namespaces) is differs


@pytest.mark.parametrize(
    ("desired", "leaves_out"),
    [
        ({"a": 1}, True),
        ({}, True),
        ({"a": 1, "new": {}}, True),
        ({"ports": [{"port": 81}]}, True),
        ({"ports": [{"port": 80}, {"port": 81}]}, True),
        ({"a": 2}, False),
        ({"a": True}, False),
        ({"new": 1}, False),
        ({"ports": [{"port": 81}, {"port": 80}]}, False),
        ({"ports": [{"port": 80, "new": 1}]}, False),
        ({"ports": {"port": 80}}, False),
    ],
)
def test_what_actions_only_leave_out(desired: dict[str, Any], *, leaves_out: bool) -> None:
    backed_up = {"a": 1, "ports": [{"port": 80, "nodePort": 30080}, {"port": 81}]}
    assert only_leaves_out(desired, backed_up) is leaves_out
