"""The restore of one item: fields that are removed, items that are skipped or refused, and reports."""

from typing import Any

import orjson
import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.kube.errors import ConnectionFailed, Forbidden, Invalid
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import read_rules
from pinnace.restore.request import RestoreRequest
from pinnace.restore.selection.reading import ItemRef, why_finished
from tests.unit.restore.world import (
    Harness,
    configmap,
    deployment,
    discovery,
    job,
    obj,
    pod,
    volume,
)

RESTORE_LABELS = {"velero.io/backup-name": "backup-1", "velero.io/restore-name": "restore-1"}


@pytest.mark.spec("RST-038")
async def test_only_name_namespace_labels_and_annotations_survive(harness: Harness) -> None:
    item = pod("pod-1", labels={"key": "val"}, annotations={"note": "kept"}, status={"phase": "Running"})
    item["metadata"] |= {
        "clusterName": "c",
        "finalizers": ["f"],
        "generateName": "pod-",
        "ownerReferences": [{"name": "o"}],
        "uid": "old",
        "resourceVersion": "7",
        "managedFields": [],
        "creationTimestamp": "2021-08-11T21:43:26Z",
    }

    results = await harness.restore(item)

    assert results.empty
    sent = harness.world.sent["pods", "ns-1", "pod-1"]
    assert "status" not in sent
    assert sent["metadata"] == {
        "name": "pod-1",
        "namespace": "ns-1",
        "labels": {"key": "val", **RESTORE_LABELS},
        "annotations": {"note": "kept"},
    }


def request_named(backup: str, restore: str) -> RestoreRequest:
    from pinnace.api.velero.backup import Backup

    spec = RestoreSpec(backup_name=backup)
    return RestoreRequest(restore=Restore(metadata=ObjectMeta(name=restore), spec=spec), backup=Backup())


@pytest.mark.spec("RST-039")
def test_names_of_63_characters_are_label_values_as_they_are() -> None:
    backup, restore = "b" * 63, "r" * 63
    assert request_named(backup, restore).labels == {
        "velero.io/backup-name": backup,
        "velero.io/restore-name": restore,
    }


@pytest.mark.spec("RST-040")
def test_longer_names_are_shortened_with_a_hash() -> None:
    name = "the-really-long-kube-service-name-that-is-much-greater-than-63-characters"
    shortened = "the-really-long-kube-service-name-that-is-much-greater-th8a11b3"
    assert set(request_named(name, name).labels.values()) == {shortened}


@pytest.mark.spec("RST-041")
async def test_mirror_pods_are_not_created(harness: Harness) -> None:
    mirror = {"kubernetes.io/config.mirror": "hash"}
    results = await harness.restore(pod("mirror", annotations=mirror), pod("empty", annotations={}))

    assert results.empty
    assert harness.world.created_of("pods") == ["ns-1/empty"]
    assert harness.numbers.published[-1] == (3, 3), "a mirror pod counts as dealt with"


def condition(kind: str, status: str = "True") -> JSONObject:
    return {"conditions": [{"type": "Suspended", "status": "False"}, {"type": kind, "status": status}]}


@pytest.mark.spec("RST-042")
@pytest.mark.found("O15a")
async def test_finished_pods_and_jobs_are_not_restored(harness: Harness) -> None:
    results = await harness.restore(
        pod("failed", status={"phase": "Failed"}),
        pod("succeeded", status={"phase": "Succeeded"}),
        pod("running", status={"phase": "Running"}),
        job("done", status={"completionTime": "2021-08-11T21:43:26Z"}),
        job("complete", status=condition("Complete")),
        job("all-but-complete", status=condition("SuccessCriteriaMet")),
        job("failed", status=condition("Failed")),
        job("all-but-failed", status=condition("FailureTarget")),
        job("going", status={"completionTime": ""}),
        job("suspended", status=condition("Suspended")),
        job("not-failed", status=condition("Failed", "False")),
        job("fresh", status={"conditions": "none"}),
    )

    assert results.empty
    assert harness.world.created_of("pods") == ["ns-1/running"]
    going = ["ns-1/fresh", "ns-1/going", "ns-1/not-failed", "ns-1/suspended"]
    assert harness.world.created_of("jobs.batch") == going
    assert harness.numbers.published[-1] == (6, 6), "what is finished is not in the restored set"
    skipped = {
        name: group["reason"]
        for group in harness.outcomes.details()["groups"]
        for name in group["objects"].get("batch/v1/Job", ())
    }
    assert skipped == {
        "ns-1/done": "it is complete",
        "ns-1/complete": "it is complete",
        "ns-1/all-but-complete": "it is complete",
        "ns-1/failed": "it has failed, and would run again",
        "ns-1/all-but-failed": "it has failed, and would run again",
    }


@pytest.mark.parametrize("status", [{"phase": 7}, "Running", ["x"]])
def test_a_status_of_a_wrong_type_is_an_error(status: Any) -> None:
    from pinnace.restore.errors import ItemError

    ref = ItemRef("pods", "ns-1", "m1", "p")
    with pytest.raises(ItemError, match='error checking completion of "pods/m1/p": '):
        why_finished(ref, pod("p", status=status))


@pytest.mark.spec("RST-048")
async def test_a_refused_create_is_an_error_of_the_namespace(harness: Harness) -> None:
    key = ("configmaps", "ns-1", "cm")
    harness.world.refuse("create", key, Forbidden(403, reason="Forbidden", message="you may not"))

    results = await harness.restore(configmap("cm"), configmap("other"))

    assert results.errors.namespaces == {"ns-1": ["error restoring configmaps/ns-1/cm: you may not"]}
    assert results.errors.count == 1
    assert harness.world.created_of("configmaps") == ["ns-1/other"]


async def test_a_cluster_scoped_failure_is_filed_under_the_cluster(harness: Harness) -> None:
    key = ("persistentvolumes", "", "pv-1")
    harness.world.refuse("create", key, ConnectionFailed("connection refused"))

    results = await harness.restore(volume("pv-1"))

    assert results.errors.cluster == ["error restoring persistentvolumes/pv-1: connection refused"]


async def test_messages_come_in_the_order_of_items_whatever_the_order_of_answers(harness: Harness) -> None:
    names = [f"cm-{index:02}" for index in range(20)]
    for name in names:
        key = ("configmaps", "ns-1", name)
        harness.world.refuse("create", key, Invalid(422, reason="Invalid", message=name))

    results = await harness.restore(*(configmap(name) for name in reversed(names)))

    assert [text[-5:] for text in results.errors.namespaces["ns-1"]] == names


async def test_a_service_refused_for_its_own_port_is_compared_with_the_existing_one(harness: Harness) -> None:
    service = obj("Service", "svc", "ns-1", spec={"type": "NodePort", "ports": [{"nodePort": 32000}]})
    await harness.restore(service, preserve_node_ports=True)
    port_taken = "spec.ports[0].nodePort: Invalid value: 32000: provided port is already allocated"
    harness.world.refuse("create", ("services", "ns-1", "svc"), Invalid(422, message=port_taken))

    again = await harness.restore(service, preserve_node_ports=True)
    del harness.world.objects[("services", "ns-1", "svc")]
    elsewhere = await harness.restore(service, preserve_node_ports=True)

    assert again.empty
    (error,) = elsewhere.errors.namespaces["ns-1"]
    assert error.startswith(f"error restoring services/ns-1/svc: {port_taken}; ")


async def test_a_binding_refused_for_what_it_grants_is_compared_with_the_existing_one(
    harness: Harness,
) -> None:
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "edit"}
    binding = obj("RoleBinding", "works-here", "ns-1", api_version=f"{group}/v1", roleRef=role)
    await harness.restore(binding)
    refused = 'user "velero" is attempting to grant RBAC permissions not currently held'
    key = (f"rolebindings.{group}", "ns-1", "works-here")
    harness.world.refuse("create", key, Forbidden(403, message=refused))

    again = await harness.restore(binding)
    del harness.world.objects[key]
    elsewhere = await harness.restore(binding)

    assert again.empty
    [error] = elsewhere.errors.namespaces["ns-1"]
    assert error.endswith(refused)


@pytest.mark.parametrize(
    ("path", "content", "problem"),
    [
        ("pods/namespaces/ns-1/p", b"null", "not a JSON object"),
        ("pods/namespaces/ns-1/p", b'"text"', "not a JSON object"),
        ("pods/namespaces/ns-1/p", b"\xff\xfe", "error decoding"),
        ("pods/namespaces/ns-1/p", b"[" * 5000, "error decoding"),
        (
            "pods/namespaces/ns-1/p",
            {"apiVersion": "v1", "metadata": {"name": "p"}},
            "'kind' is missing",
        ),
        ("pods/namespaces/ns-1/p", {"kind": "Pod", "metadata": {"name": "p"}}, "'apiVersion' is missing"),
        ("pods/namespaces/ns-1/p", pod("p") | {"metadata": ["x"]}, "metadata not found"),
        ("pods/namespaces/ns-1/p", pod("p") | {"metadata": None}, "metadata not found"),
        ("pods/namespaces/ns-1/p", pod("other"), "metadata.name is not the name of the file"),
        ("pods/namespaces/ns-1/p", pod("../../kube-system/p"), "metadata.name is not"),
        ("pods/namespaces/ns-1/p", pod("p", "kube-system"), "metadata.namespace is not the name of"),
        ("pods/namespaces/ns-1/p", pod("p") | {"apiVersion": "apps/v1"}, "not of the group in the path"),
        ("pods/namespaces/ns-1/p", pod("p") | {"kind": "Secret"}, 'its kind is "Secret", not Pod'),
        ("pods/namespaces/ns-1/p", pod("p", labels={"a": 1}), "metadata.labels is not a map of strings"),
        ("pods/namespaces/ns-1/p", pod("p", annotations=["a"]), "metadata.annotations is not a map"),
        ("pods/cluster/p", obj("Pod", "p"), "Pod is namespaced in this cluster"),
        ("nodes.x/namespaces/ns-1/p", None, "the cluster does not serve nodes.x"),
        (
            "persistentvolumes/namespaces/ns-1/pv",
            obj("PersistentVolume", "pv", "ns-1", spec={}),
            "PersistentVolume is cluster-scoped in this cluster",
        ),
        ("persistentvolumes/cluster/pv", obj("PersistentVolume", "pv", spec=7), "spec is not a volume's"),
    ],
)
async def test_a_hostile_item_is_an_error_and_nothing_is_created(
    harness: Harness, path: str, content: Any, problem: str
) -> None:
    raw = content if isinstance(content, bytes) else orjson.dumps(content)

    results = await harness.restore(files={f"resources/{path}.json": raw})

    ((_, message),) = results.errors.notices()
    assert problem in message
    assert [key for key in harness.world.created if key[0] != "namespaces"] == []


@pytest.mark.parametrize(
    "spec",
    [
        7,
        [1],
        "text",
        {"containers": 3, "volumes": {}},
        {"volumes": [None]},
        {"volumes": [{"name": ["x"]}]},
    ],
)
async def test_a_malformed_spec_fails_no_action_and_reaches_the_server_unchanged(
    harness: Harness, spec: Any
) -> None:
    key = ("pods", "ns-1", "p")
    harness.world.refuse("create", key, Invalid(422, message="the server does not like it"))
    sent = []
    create = harness.world.create_bytes

    async def spy(resource: Any, body: bytes, namespace: str | None = None, **options: Any) -> bytes:
        sent.append(orjson.loads(body))
        return await create(resource, body, namespace, **options)

    harness.world.create_bytes = spy  # type: ignore[method-assign]
    results = await harness.restore(pod("p", spec=spec))

    assert sent[-1]["spec"] == spec
    assert results.errors.namespaces == {"ns-1": ["error restoring pods/ns-1/p: the server does not like it"]}


async def test_an_item_too_deep_to_send_is_an_error(harness: Harness) -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    raw = orjson.dumps(configmap("cm"))[:-1] + b',"data":' + b"[" * 400 + b"]" * 400 + b"}"

    results = await harness.restore(files={"resources/configmaps/namespaces/ns-1/cm.json": raw})

    ((namespace, message),) = results.errors.notices()
    assert (namespace, message.startswith("error restoring configmaps/ns-1/cm: ")) == ("ns-1", True)


async def test_a_missing_namespace_is_filled_in_from_the_path(harness: Harness) -> None:
    raw = orjson.dumps(obj("ConfigMap", "cm"))

    results = await harness.restore(files={"resources/configmaps/namespaces/ns-1/cm.json": raw})

    assert results.empty
    assert harness.world.item("configmaps", "ns-1", "cm")["metadata"]["namespace"] == "ns-1"


async def test_an_item_in_an_unserved_version_is_sent_and_the_server_decides(harness: Harness) -> None:
    results = await harness.restore(deployment("d") | {"apiVersion": "apps/v1beta1"})

    assert results.empty
    assert harness.world.item("deployments.apps", "ns-1", "d")["apiVersion"] == "apps/v1beta1"


async def test_an_invalid_version_is_a_velero_error(harness: Harness) -> None:
    results = await harness.restore(deployment("d") | {"apiVersion": "apps/v1?x"})

    (message,) = results.errors.velero
    expected = 'error getting resource client for namespace "ns-1", resource "deployments.apps": '
    assert message.startswith(expected)


@pytest.mark.spec("AFT-117")
@pytest.mark.parametrize(
    ("kind", "version"),
    [("PodVolumeBackup", "v1"), ("DeleteBackupRequest", "v1"), ("DataUpload", "v2alpha1")],
)
async def test_records_and_requests_of_the_tool_are_refused_with_a_warning(
    harness: Harness, kind: str, version: str
) -> None:
    items = [obj(kind, f"x-{index:02}", "velero", api_version=f"velero.io/{version}") for index in range(12)]

    results = await harness.restore(*items, namespace_mapping={"velero": "tool"})

    ((namespace, message),) = results.warnings.notices()
    assert namespace == "tool"
    assert message.startswith(f"12 {kind.lower()}s.velero.io not restored (x-00, x-01, ")
    assert "x-11" in message, "each is named"
    assert harness.world.created == []


async def test_volume_snapshots_are_refused_unless_an_action_takes_care_of_them(harness: Harness) -> None:
    snapshot = obj("VolumeSnapshot", "s", "ns-1", api_version="snapshot.storage.k8s.io/v1")

    refused = await harness.restore(snapshot)

    assert refused.warnings.count == 1
    assert harness.world.created == []

    harness.actions = [_Watcher()]
    taken = await harness.restore(snapshot)

    assert taken.empty
    assert harness.world.created_of("volumesnapshots.snapshot.storage.k8s.io") == ["ns-1/s"]


@pytest.mark.found("R1")
async def test_an_action_that_takes_all_kinds_takes_no_care_of_volume_snapshots(harness: Harness) -> None:
    harness.actions = [_Watcher("*")]
    snapshot = obj("VolumeSnapshot", "s", "ns-1", api_version="snapshot.storage.k8s.io/v1")
    refused = await harness.restore(snapshot, configmap("cm"))
    assert refused.warnings.count == 1
    assert harness.world.created_of("volumesnapshots.snapshot.storage.k8s.io") == []


@pytest.mark.found("R1")
async def test_snapshot_classes_come_back_and_group_snapshots_do_not(harness: Harness) -> None:
    kinds = {
        ("snapshot.storage.k8s.io", "volumesnapshotclasses"): "VolumeSnapshotClass",
        ("groupsnapshot.storage.k8s.io", "volumegroupsnapshotclasses"): "VolumeGroupSnapshotClass",
        ("groupsnapshot.storage.k8s.io", "volumegroupsnapshotcontents"): "VolumeGroupSnapshotContent",
        ("groupsnapshot.storage.k8s.io", "volumegroupsnapshots"): "VolumeGroupSnapshot",
    }
    is_namespaced = {"VolumeGroupSnapshot": "ns-1"}
    harness.discovery = discovery(
        *((group, "v1", plural, kind, kind in is_namespaced) for (group, plural), kind in kinds.items())
    )
    files = {}
    for (group, plural), kind in kinds.items():
        item = obj(kind, "x", is_namespaced.get(kind, ""), api_version=f"{group}/v1")
        scope = f"namespaces/{is_namespaced[kind]}" if kind in is_namespaced else "cluster"
        files[f"resources/{plural}.{group}/{scope}/x.json"] = orjson.dumps(item)

    results = await harness.restore(files=files)

    assert {kind for kind, _, _ in harness.world.created} == {
        "volumesnapshotclasses.snapshot.storage.k8s.io",
        "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io",
    }
    assert sorted(message.split(":")[0] for _, message in results.warnings.notices()) == [
        "1 volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io not restored (x)",
        "1 volumegroupsnapshots.groupsnapshot.storage.k8s.io not restored (x)",
    ]


class _Watcher:
    name = "example.com/csi"

    def __init__(self, wanted: str = "volumesnapshots.snapshot.storage.k8s.io") -> None:
        self._wanted = wanted

    async def applies_to(self) -> Any:
        from pinnace.plugins.protocols import ResourceSelector

        return ResourceSelector(included_resources=(self._wanted,))

    async def execute(self, given: Any) -> Any:
        from pinnace.plugins.protocols import RestoreItemOutput

        return RestoreItemOutput(item=given.item)


async def test_a_second_restore_changes_nothing_and_reports_nothing(harness: Harness) -> None:
    items = (pod("p"), configmap("cm", data={"a": "b"}), deployment("d"), volume("pv"))
    first = await harness.restore(*items)
    before = dict(harness.world.objects)

    second = await harness.restore(*items)

    assert first.empty
    assert second.empty
    assert harness.world.objects == before


async def test_many_items_are_all_restored_once(harness: Harness) -> None:
    items = [configmap(f"cm-{index}", f"ns-{index % 7}") for index in range(500)]

    results = await harness.restore(*items)

    assert results.empty
    assert len(harness.world.created_of("configmaps")) == 500
    assert len(harness.world.created_of("namespaces")) == 7
    assert harness.numbers.published[-1] == (507, 507)


async def test_modifiers_change_an_item_under_its_old_namespace_and_their_problems_are_errors(
    harness: Harness,
) -> None:
    rules = """
version: v1
resourceModifierRules:
- conditions: {groupResource: configmaps, namespaces: [ns-1]}
  patches: [{operation: replace, path: /data/a, value: '"2"'}]
- conditions: {groupResource: configmaps, namespaces: [ns-1]}
  patches: [{operation: remove, path: /data/missing}]
- conditions: {groupResource: configmaps, namespaces: [new]}
  patches: [{operation: replace, path: /data/a, value: never}]
"""
    modifiers = ResourceModifiers(read_rules({"data": {"rules": rules}}))
    harness.request_fields = {"modifiers": modifiers}

    results = await harness.restore(configmap("cm", data={"a": "1"}), namespace_mapping={"ns-1": "new"})

    assert harness.world.item("configmaps", "new", "cm")["data"] == {"a": "2"}
    assert results.errors.namespaces == {
        "new": [
            "error modifying configmaps/new/cm: resource modifier rule 2: remove /data/missing: there is no"
            " such path"
        ]
    }
