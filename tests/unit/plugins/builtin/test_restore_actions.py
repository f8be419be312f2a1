"""The built-in restore actions, one by one."""

import uuid
from typing import Any, ClassVar

import orjson
import pytest

from pinnace.api import labels
from pinnace.api.meta import LabelSelector, ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.pod_hooks import parse_command
from pinnace.api.velero.restore import (
    InitRestoreHook,
    Restore,
    RestoreHooks,
    RestoreResourceHook,
    RestoreResourceHookSpec,
    RestoreSpec,
)
from pinnace.kube.errors import Forbidden, KubeError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.builtin.restore.config import ActionError
from pinnace.plugins.builtin.restore.init_hooks import AddInitContainers
from pinnace.plugins.protocols import RestoreItemAction, RestoreItemInput, RestoreItemOutput
from tests.support.cluster.discovered import documented_discovery

DISCOVERY = documented_discovery([])


class Shelf:
    """ConfigMaps by selector, and names that exist."""

    def __init__(self, configmaps: list[JSONObject] | None = None, exists: tuple[str, ...] = ()) -> None:
        self.configmaps = configmaps or []
        self.lists = 0
        self.refuse: KubeError | None = None
        self._exists = exists

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        if self.refuse is not None:
            raise self.refuse
        if f"{resource.name}/{name}" not in self._exists:
            raise NotFound(404, message=f'{resource.name} "{name}" not found')
        return {}

    async def list_all(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> list[JSONObject]:
        assert (resource.name, namespace) == ("configmaps", "velero")
        self.lists += 1
        plugin = label_selector.removeprefix("velero.io/plugin-config,").removesuffix("=RestoreItemAction")
        return [one for one in self.configmaps if one["plugin"] == plugin]


def config(plugin: str, data: dict[str, str] | None, name: str = "config") -> JSONObject:
    return {"plugin": plugin, "metadata": {"name": name}, "data": data}


def action(name: str, shelf: Shelf | None = None) -> RestoreItemAction:
    found = {one.name: one for one in restore_actions(shelf or Shelf(), DISCOVERY, "velero")}
    return found[f"velero.io/{name}"]


def given(item: JSONObject, original: JSONObject | None = None, **spec: Any) -> RestoreItemInput:
    restore = Restore(metadata=ObjectMeta(name="r"), spec=RestoreSpec(**spec))
    return RestoreItemInput(
        item=orjson.loads(orjson.dumps(item)),
        item_from_backup=item if original is None else original,
        restore=restore,
    )


async def run(
    name: str,
    item: JSONObject,
    original: JSONObject | None = None,
    *,
    shelf: Shelf | None = None,
    **spec: Any,
) -> RestoreItemOutput:
    return await action(name, shelf).execute(given(item, original, **spec))


def test_all_actions_come_sorted_by_name() -> None:
    names = [one.name for one in restore_actions(Shelf(), DISCOVERY, "velero")]
    assert names == [
        "velero.io/add-pv-from-pvc",
        "velero.io/add-pvc-from-pod",
        "velero.io/admission-webhook-configuration",
        "velero.io/apiservice",
        "velero.io/change-image-name",
        "velero.io/change-pvc-node-selector",
        "velero.io/change-storage-class",
        "velero.io/cluster-role-bindings",
        "velero.io/crd-preserve-fields",
        "velero.io/init-restore-hook",
        "velero.io/job",
        "velero.io/pod",
        "velero.io/restic",
        "velero.io/role-bindings",
        "velero.io/secret",
        "velero.io/service",
        "velero.io/service-account",
    ]


@pytest.mark.parametrize("one", restore_actions(Shelf(), DISCOVERY, "velero"), ids=lambda one: one.name)
@pytest.mark.parametrize(
    "item",
    [
        {},
        {"metadata": None, "spec": None, "secrets": 3, "subjects": "x"},
        {"metadata": {"annotations": [1], "labels": 4}, "spec": [], "secrets": [None], "subjects": [1]},
        {"spec": {"ports": [1], "volumes": {}, "containers": [None, {"volumeMounts": 1}], "template": []}},
        {"type": "kubernetes.io/service-account-token", "data": None, "metadata": {}},
        {"apiVersion": "apiextensions.k8s.io/v1", "spec": {"preserveUnknownFields": True, "versions": 1}},
    ],
)
async def test_no_action_fails_on_an_object_of_another_form(one: RestoreItemAction, item: JSONObject) -> None:
    output = await one.execute(given(item))

    assert isinstance(output.item, dict)


class TestVolumesAndClaims:
    @pytest.mark.spec("RST-060")
    @pytest.mark.parametrize(
        ("phase", "volume", "names"),
        [("Bound", "pv-1", ["pv-1"]), ("Pending", "pv-1", []), ("Bound", "", []), ("Bound", None, [])],
    )
    async def test_the_volume_of_a_bound_claim_comes_along(
        self, phase: str, volume: str | None, names: list[str]
    ) -> None:
        original = {"spec": {"volumeName": volume}, "status": {"phase": phase}}
        output = await run("add-pv-from-pvc", {"spec": {}}, original)
        assert [(one.group_resource, one.namespace, one.name) for one in output.additional_items] == [
            ("persistentvolumes", "", name) for name in names
        ]
        assert output.item == {"spec": {}}

    @pytest.mark.spec("RST-061")
    async def test_the_claims_of_a_pod_come_along(self) -> None:
        volumes = [
            {"name": "a", "persistentVolumeClaim": {"claimName": "pvc-1"}},
            {"name": "b", "emptyDir": {}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "pvc-2"}},
        ]
        pod = {"metadata": {"namespace": "ns-1"}, "spec": {"volumes": volumes}}
        output = await run("add-pvc-from-pod", pod)
        assert [(one.group_resource, one.namespace, one.name) for one in output.additional_items] == [
            ("persistentvolumeclaims", "ns-1", "pvc-1"),
            ("persistentvolumeclaims", "ns-1", "pvc-2"),
        ]

    @pytest.mark.found("O17b")
    @pytest.mark.parametrize(
        ("spec", "found"),
        [
            ({"priorityClassName": "urgent"}, [("priorityclasses.scheduling.k8s.io", "", "urgent")]),
            ({"priorityClassName": "system-node-critical"}, []),
            ({"runtimeClassName": "kata"}, [("runtimeclasses.node.k8s.io", "", "kata")]),
            ({"runtimeClassName": ""}, []),
        ],
    )
    async def test_the_classes_of_a_pod_come_along(
        self, spec: JSONObject, found: list[tuple[str, str, str]]
    ) -> None:
        output = await run("add-pvc-from-pod", {"spec": spec})
        assert [(one.group_resource, one.namespace, one.name) for one in output.additional_items] == found

    @pytest.mark.spec("RST-072")
    async def test_a_storage_class_is_mapped_if_the_new_one_exists(self) -> None:
        shelf = Shelf([config("velero.io/change-storage-class", {"s1": "s2"})], ("storageclasses/s2",))
        output = await run("change-storage-class", {"spec": {"storageClassName": "s1"}}, shelf=shelf)
        assert output.item["spec"]["storageClassName"] == "s2"

    @pytest.mark.spec("API-021", "RST-072")
    async def test_the_claims_that_a_stateful_set_makes_are_mapped_too(self) -> None:
        shelf = Shelf([config("velero.io/change-storage-class", {"s1": "s2"})], ("storageclasses/s2",))
        templates = [{"spec": {"storageClassName": name}} for name in ("s1", "other")]
        output = await run("change-storage-class", {"spec": {"volumeClaimTemplates": templates}}, shelf=shelf)
        assert [each["spec"]["storageClassName"] for each in output.item["spec"]["volumeClaimTemplates"]] == [
            "s2",
            "other",
        ]

    async def test_a_storage_class_that_does_not_exist_is_an_error(self) -> None:
        shelf = Shelf([config("velero.io/change-storage-class", {"s1": "s2"})])
        with pytest.raises(ActionError, match=r"^error getting storage class s2 from API: "):
            await run("change-storage-class", {"spec": {"storageClassName": "s1"}}, shelf=shelf)

    @pytest.mark.spec("API-021")
    @pytest.mark.parametrize("data", [None, {}, {"other": "s2"}])
    @pytest.mark.parametrize("spec", [{}, {"storageClassName": ""}, {"storageClassName": "s1"}])
    async def test_without_a_mapping_the_class_stays(
        self, data: dict[str, str] | None, spec: JSONObject
    ) -> None:
        shelf = Shelf([config("velero.io/change-storage-class", data)])
        output = await run("change-storage-class", {"spec": spec}, shelf=shelf)
        assert output.item == {"spec": spec}

    @pytest.mark.spec("RST-073")
    @pytest.mark.parametrize("name", ["change-storage-class", "change-pvc-node-selector"])
    async def test_two_configmaps_are_an_error(self, name: str) -> None:
        plugin = f"velero.io/{name}"
        shelf = Shelf([config(plugin, {}, "b"), config(plugin, {}, "a")])
        item = {
            "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}},
            "spec": {"storageClassName": "s"},
        }
        with pytest.raises(ActionError) as caught:
            await run(name, item, shelf=shelf)
        assert str(caught.value) == (
            "found more than one ConfigMap matching label selector "
            f'"velero.io/plugin-config,{plugin}=RestoreItemAction": [a b]'
        )

    async def test_the_configmap_is_read_once_for_a_restore_and_anew_for_the_next(self) -> None:
        shelf = Shelf()
        one = action("change-storage-class", shelf)
        first, second = given({"spec": {}}), given({"spec": {}})
        for _ in range(3):
            await one.execute(first)
        assert shelf.lists == 1
        await one.execute(second)
        assert shelf.lists == 2

    @pytest.mark.spec("API-021", "RST-074")
    @pytest.mark.parametrize(
        ("data", "exists", "expected"),
        [
            ({"old": "new"}, (), "new"),
            ({"other": "new"}, (), None),
            ({"old": ""}, (), None),
            (None, (), None),
            ({}, ("nodes/old",), "old"),
        ],
        ids=["mapped", "unmapped-gone", "mapped-to-nothing", "no-mapping", "exists"],
    )
    async def test_a_selected_node_is_mapped_kept_or_removed(
        self, data: dict[str, str] | None, exists: tuple[str, ...], expected: str | None
    ) -> None:
        shelf = Shelf([config("velero.io/change-pvc-node-selector", data)], exists)
        item = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "old"}}}
        output = await run("change-pvc-node-selector", item, shelf=shelf)
        annotations = output.item["metadata"].get("annotations")
        wanted = None if expected is None else {"volume.kubernetes.io/selected-node": expected}
        assert annotations == wanted

    async def test_a_node_that_cannot_be_looked_up_is_an_error(self) -> None:
        shelf = Shelf()
        shelf.refuse = Forbidden(403, message="you may not")
        item = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "old"}}}
        with pytest.raises(ActionError, match=r"^error checking node old existence: you may not$"):
            await run("change-pvc-node-selector", item, shelf=shelf)


def service(*ports: JSONObject, applied: Any = None, **spec: Any) -> JSONObject:
    metadata: JSONObject = {"name": "svc"}
    if applied is not None:
        text = applied if isinstance(applied, str) else orjson.dumps({"spec": {"ports": applied}}).decode()
        metadata["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": text}
    return {"metadata": metadata, "spec": {**spec, "ports": list(ports)}}


def node_ports(output: RestoreItemOutput) -> list[int | None]:
    return [port.get("nodePort") for port in output.item["spec"]["ports"]]


def managed(ports: JSONObject) -> JSONObject:
    return {"operation": "Update", "fieldsV1": {"f:spec": {"f:ports": ports}}}


class TestServices:
    @pytest.mark.spec("RST-062")
    async def test_the_cluster_address_is_removed_and_addresses_of_the_user_stay(self) -> None:
        kept = {"loadBalancerIP": "1.2.3.4", "externalIPs": ["5.6.7.8"], "ipFamilies": ["IPv4"]}
        output = await run("service", service(clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"], **kept))
        assert output.item["spec"] == {**kept, "ports": []}

    @pytest.mark.spec("RST-063")
    async def test_a_headless_service_stays_headless(self) -> None:
        output = await run("service", service(clusterIP="None", clusterIPs=["None"]))
        assert output.item["spec"] == {"clusterIP": "None", "clusterIPs": ["None"], "ports": []}

    @pytest.mark.spec("RST-064")
    async def test_without_annotation_all_node_ports_are_removed(self) -> None:
        output = await run("service", service({"name": "a", "nodePort": 32000}, {"nodePort": 32001}))
        assert node_ports(output) == [None, None]

    @pytest.mark.spec("RST-065")
    async def test_an_applied_unnamed_node_port_stays(self) -> None:
        output = await run("service", service({"nodePort": 8080}, applied=[{"nodePort": 8080}]))
        assert node_ports(output) == [8080]

    @pytest.mark.found("U13")
    async def test_an_unnamed_port_of_another_number_than_applied_does_not_count(self) -> None:
        ports = ({"nodePort": 8080}, {"nodePort": 8081})
        output = await run("service", service(*ports, applied=[{"nodePort": 8081}]))
        assert node_ports(output) == [None, 8081]

    @pytest.mark.found("U8")
    @pytest.mark.parametrize(
        ("applied", "kept"),
        [
            ("30080", 30080),
            (30080, 30080),
            ("x", None),
            ("", None),
            (True, None),
            (1.5, None),
            ({}, None),
            ("9" * 5000, None),
            ("\u0663", None),
            (-1, None),
        ],
    )
    async def test_a_node_port_in_the_annotation_may_be_a_text(self, applied: Any, kept: int | None) -> None:
        port = {"name": "http", "nodePort": 30080}
        output = await run("service", service(port, applied=[{"name": "http", "nodePort": applied}]))
        assert node_ports(output) == [kept]

    @pytest.mark.spec("RST-066")
    async def test_an_applied_port_of_another_name_does_not_count(self) -> None:
        applied = [{"name": "http", "nodePort": 8080}]
        output = await run("service", service({"nodePort": 8080}, applied=applied))
        assert node_ports(output) == [None]

    @pytest.mark.spec("RST-067")
    async def test_only_applied_node_ports_stay(self) -> None:
        ports = ({"name": "http", "nodePort": 8080}, {"name": "admin", "nodePort": 9090})
        output = await run("service", service(*ports, applied=[{"name": "http", "nodePort": 8080}]))
        assert node_ports(output) == [8080, None]

    async def test_the_node_port_of_a_port_applied_without_one_is_removed(self) -> None:
        applied = [{"name": "http"}, {"name": "zero", "nodePort": 0}]
        ports = ({"name": "http", "nodePort": 8080}, {"name": "zero", "nodePort": 8081})
        assert node_ports(await run("service", service(*ports, applied=applied))) == [None, None]

    @pytest.mark.spec("RST-068")
    async def test_a_restore_that_preserves_node_ports_keeps_all(self) -> None:
        ports = ({"name": "http", "nodePort": 8080}, {"name": "admin", "nodePort": 9090})
        output = await run("service", service(*ports), preserve_node_ports=True)
        assert node_ports(output) == [8080, 9090]

    async def test_a_trial_restore_keeps_no_node_port_that_the_original_has(self) -> None:
        item = service({"name": "http", "nodePort": 8080}, applied=[{"name": "http", "nodePort": 8080}])
        trial = given(item)
        trial.restore.metadata.labels[labels.VERIFICATION] = "b1"

        assert node_ports(await action("service").execute(trial)) == [None]

    async def test_ports_that_the_api_server_did_not_choose_stay(self) -> None:
        """As the API server notes who set a field: it has no owner for a port that it chose."""
        ports = [
            {"name": "wish", "port": 80, "protocol": "TCP", "nodePort": 31000},
            {"name": "chosen", "port": 81, "protocol": "TCP", "nodePort": 32000},
            {"name": "wish-too", "port": 80, "protocol": "UDP", "nodePort": 31000},
        ]
        fields: JSONObject = {
            'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:nodePort": {}},
            'k:{"port":81,"protocol":"TCP"}': {".": {}, "f:name": {}},
        }
        others: JSONObject = {'k:{"port":80,"protocol":"UDP"}': {"f:nodePort": {}}}
        item = service(*ports, type="LoadBalancer", healthCheckNodePort=33000)
        item["metadata"]["managedFields"] = [managed(fields), managed(others), {"fieldsV1": None}]

        output = await run("service", {**item, "metadata": {}}, item)

        assert node_ports(output) == [31000, None, 31000]
        assert "healthCheckNodePort" not in output.item["spec"]

    @pytest.mark.parametrize(
        ("managed_fields", "applied"),
        [([{"fieldsV1": {"f:spec": {"f:healthCheckNodePort": {}}}}], False), ([{}], True), ([], False)],
        ids=["by-a-client", "applied", "unknown"],
    )
    async def test_a_health_check_port_stays_unless_the_api_server_chose_it(
        self, managed_fields: list[JSONObject], applied: bool
    ) -> None:
        item = service(type="LoadBalancer", healthCheckNodePort=33000)
        if applied:
            manifest = orjson.dumps({"spec": {"healthCheckNodePort": 33000}}).decode()
            item["metadata"] = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": manifest}}
        output = await run("service", item, {**item, "metadata": {"managedFields": managed_fields}})
        assert output.item["spec"]["healthCheckNodePort"] == 33000

    async def test_an_external_name_is_left_alone(self) -> None:
        output = await run("service", service({"nodePort": 8080}, applied="{", type="ExternalName"))
        assert node_ports(output) == [8080]

    @pytest.mark.parametrize(
        ("applied", "problem"),
        [
            ("{", "unexpected end of data"),
            ("[]", "it is not an object"),
            ("null", "it is not an object"),
            ('{"spec": 1}', "spec is not an object"),
            ('{"spec": {"ports": {}}}', "spec.ports is not a list"),
            ([1], "a port is not an object"),
            ([{"name": [], "nodePort": 1}], "the name of a port is not a text"),
        ],
    )
    async def test_an_annotation_that_cannot_be_read_is_an_error(self, applied: Any, problem: str) -> None:
        with pytest.raises(ActionError, match=f"last-applied-configuration: {problem}"):
            await run("service", service({"nodePort": 8080}, applied=applied))


class TestPods:
    @pytest.mark.spec("RST-070")
    @pytest.mark.found("O17c")
    async def test_values_of_the_old_cluster_and_token_volumes_are_removed(self) -> None:
        mounts = [{"name": "foo"}, {"name": "foo-token-foo"}]
        pod = {
            "spec": {
                "nodeName": "n",
                "priority": 3,
                "preemptionPolicy": "Never",
                "overhead": {"cpu": "10m"},
                "ephemeralContainers": [{"name": "debugger"}],
                "runtimeClassName": "kata",
                "priorityClassName": "high",
                "serviceAccountName": "foo",
                "volumes": [{"name": "foo"}, {"name": "foo-token-foo"}, {"name": "kube-api-access-x"}],
                "containers": [{"name": "c", "volumeMounts": mounts}, {"name": "d"}],
                "initContainers": [{"name": "i", "volumeMounts": mounts}],
            }
        }
        assert (await run("pod", pod)).item == {
            "spec": {
                "priorityClassName": "high",
                "runtimeClassName": "kata",
                "serviceAccountName": "foo",
                "volumes": [{"name": "foo"}, {"name": "kube-api-access-x"}],
                "containers": [{"name": "c", "volumeMounts": [{"name": "foo"}]}, {"name": "d"}],
                "initContainers": [{"name": "i", "volumeMounts": [{"name": "foo"}]}],
            }
        }


class TestAccounts:
    @pytest.mark.spec("RST-069")
    async def test_token_secrets_of_an_account_are_removed(self) -> None:
        names = ["a", "bar-token-x", "baz", "bar-TOKN-y", "bar-token-z"]
        account = {"metadata": {"name": "bar"}, "secrets": [{"name": name} for name in names]}
        output = await run("service-account", account)
        assert [entry["name"] for entry in output.item["secrets"]] == ["a", "baz", "bar-TOKN-y"]

    @pytest.mark.found("U12")
    @pytest.mark.parametrize(
        ("name", "is_left_out"),
        [
            ("default-token-abcde", True),
            ("default-token-x7k2p", True),
            ("default-token-mine-1", False),
            ("default-token", False),
            ("other-token-abcde", False),
            ("my-default-token-abcde", False),
        ],
    )
    async def test_a_token_secret_that_an_old_cluster_made_by_itself_is_left_out(
        self, name: str, is_left_out: bool
    ) -> None:
        annotations = {"kubernetes.io/service-account.name": "default"}
        metadata = {"name": name, "namespace": "ns-1", "annotations": annotations}
        secret = {"type": "kubernetes.io/service-account-token", "metadata": metadata, "data": {"token": "t"}}

        output = await run("secret", secret)

        assert output.skip is is_left_out
        assert (await run("secret", {**secret, "type": "Opaque"})).skip is False

    async def test_a_token_secret_is_emptied_and_its_account_comes_first(self) -> None:
        prefix = "kubernetes.io/service-account"
        secret = {
            "type": f"{prefix}-token",
            "metadata": {
                "namespace": "ns-1",
                "annotations": {f"{prefix}.name": "bar", f"{prefix}.uid": "old", "mine": "x"},
            },
            "data": {"token": "t", "ca.crt": "c", "namespace": "n", "extra": "e"},
        }
        output = await run("secret", secret)
        assert output.item["data"] == {"extra": "e"}
        assert output.item["metadata"]["annotations"] == {f"{prefix}.name": "bar", "mine": "x"}
        (first,) = output.additional_items
        assert (first.group_resource, first.namespace, first.name) == ("serviceaccounts", "ns-1", "bar")

    async def test_other_secrets_are_left_alone(self) -> None:
        secret = {"type": "Opaque", "metadata": {"namespace": "ns-1"}, "data": {"token": "t"}}
        output = await run("secret", secret)
        assert output.item == secret
        assert list(output.additional_items) == []


class TestJobs:
    @pytest.mark.spec("RST-071")
    async def test_the_uid_of_the_old_job_is_removed(self) -> None:
        def labels() -> dict[str, str]:
            return {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "app": "x"}

        template = {"metadata": {"labels": labels()}}
        job = {"spec": {"selector": {"matchLabels": labels()}, "template": template}}
        assert (await run("job", job)).item == {
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}},
            }
        }

    @pytest.mark.spec("RST-071")
    @pytest.mark.parametrize("spec", [{}, {"template": {"metadata": {}}}, {"selector": {}}])
    async def test_missing_labels_are_no_failure(self, spec: JSONObject) -> None:
        assert (await run("job", {"spec": spec})).item == {"spec": spec}

    async def test_a_selector_of_the_users_own_stays(self) -> None:
        labels = {"controller-uid": "mine"}
        job = {"spec": {"manualSelector": True, "selector": {"matchLabels": labels}}}
        assert (await run("job", job)).item == job


class TestBindingsAndDefinitions:
    @pytest.mark.spec("RST-075")
    @pytest.mark.parametrize("name", ["role-bindings", "cluster-role-bindings"])
    async def test_subjects_follow_the_mapping(self, name: str) -> None:
        subjects = [{"namespace": "ns-1"}, {"namespace": "ns-2"}, {"name": "user"}]
        output = await run(name, {"subjects": subjects}, namespace_mapping={"ns-1": "m1"})
        assert output.item["subjects"] == [{"namespace": "m1"}, {"namespace": "ns-2"}, {"name": "user"}]

    @pytest.mark.spec("RST-076")
    async def test_the_flag_of_a_definition_moves_into_its_schemas(self) -> None:
        schema = {"properties": {"n": {"maximum": 5}}}
        versions = [{"name": "v1", "schema": {"openAPIV3Schema": schema}}, {"name": "v2"}]
        spec = {"preserveUnknownFields": True, "versions": versions}
        crd = {"apiVersion": "apiextensions.k8s.io/v1", "spec": spec}
        output = await run("crd-preserve-fields", crd)
        assert "preserveUnknownFields" not in output.item["spec"]
        first, second = output.item["spec"]["versions"]
        root = first["schema"]["openAPIV3Schema"]
        assert root["x-kubernetes-preserve-unknown-fields"] is True
        assert second == {"name": "v2"}
        assert b'"maximum":5}' in orjson.dumps(root)

    @pytest.mark.parametrize(
        ("version", "flag"), [("v1beta1", True), ("v1", False), ("v1", None)], ids=["old", "false", "none"]
    )
    async def test_other_definitions_stay_as_they_are(self, version: str, flag: bool | None) -> None:
        spec: JSONObject = {"preserveUnknownFields": flag, "versions": [{"schema": {"openAPIV3Schema": {}}}]}
        crd = {"apiVersion": f"apiextensions.k8s.io/{version}", "spec": spec}
        assert (await run("crd-preserve-fields", crd)).item == crd


def init_hook(name: str, **selector: Any) -> RestoreResourceHookSpec:
    hook = RestoreResourceHook(init=InitRestoreHook(init_containers=[{"name": name, "image": "i"}]))
    return RestoreResourceHookSpec(name=name, post_hooks=[hook], **selector)


def hooked_pod(*existing: str, **annotations: str) -> JSONObject:
    prefix = "init.hook.restore.velero.io/"
    return {
        "metadata": {
            "namespace": "ns-1",
            "labels": {"app": "x"},
            "annotations": {f"{prefix}{key.replace('_', '-')}": text for key, text in annotations.items()},
        },
        "spec": {"initContainers": [{"name": name} for name in existing]},
    }


def names(output: RestoreItemOutput) -> list[str]:
    return [container["name"] for container in output.item["spec"]["initContainers"]]


class TestInitHooks:
    @pytest.mark.spec("RST-103")
    async def test_the_annotation_overrides_the_spec_and_restic_stays_first(self) -> None:
        pod = hooked_pod("restic-wait", "one", "two", container_image="img", container_name="mine")
        output = await run("init-restore-hook", pod, hooks=RestoreHooks(resources=[init_hook("spec")]))
        assert names(output) == ["restic-wait", "mine", "one", "two"]
        assert output.item["spec"]["initContainers"][1] == {"name": "mine", "image": "img"}

    @pytest.mark.found("U5")
    async def test_all_matching_hooks_of_the_spec_are_added_in_order(self) -> None:
        hooks = [
            init_hook("a"),
            init_hook("old-ns", included_namespaces=["ns-1"]),
            init_hook("b", included_namespaces=["m1"]),
            init_hook("other-label", label_selector=LabelSelector(match_labels={"app": "y"})),
            init_hook("c", label_selector=LabelSelector(match_labels={"app": "x"})),
        ]
        output = await run(
            "init-restore-hook",
            hooked_pod("one"),
            hooks=RestoreHooks(resources=hooks),
            namespace_mapping={"ns-1": "m1"},
        )
        assert names(output) == ["a", "b", "c", "one"]

    @pytest.mark.spec("API-027")
    @pytest.mark.parametrize(
        ("existing", "image", "expected"),
        [
            (("restic-wait", "own"), "img", ["restic-wait", "mine", "own"]),
            (("own",), "img", ["mine", "own"]),
            (("own", "restic-wait"), "img", ["mine", "own", "restic-wait"]),
            (("own",), "", ["of-spec", "own"]),
        ],
        ids=["behind-restic", "first", "restic-elsewhere", "no-image"],
    )
    async def test_containers_come_from_the_spec_or_annotations_and_stand_first(
        self, existing: tuple[str, ...], image: str, expected: list[str]
    ) -> None:
        hooks = RestoreHooks(
            resources=[
                init_hook("of-spec", label_selector=LabelSelector(match_labels={"app": "x"})),
                init_hook("other", label_selector=LabelSelector(match_labels={"app": "y"})),
            ]
        )
        pod = hooked_pod(*existing, container_image=image, container_name="mine")
        assert names(await run("init-restore-hook", pod, hooks=hooks)) == expected

    async def test_what_later_actions_change_in_a_pod_stays_out_of_the_restore(self) -> None:
        hooks = RestoreHooks(resources=[init_hook("a")])
        output = await run("init-restore-hook", hooked_pod(), hooks=hooks)
        output.item["spec"]["initContainers"][0]["volumeMounts"] = []
        hook = hooks.resources[0].post_hooks[0]
        assert hook.init is not None
        assert hook.init.init_containers == [{"name": "a", "image": "i"}]

    @pytest.mark.spec("RST-106")
    @pytest.mark.parametrize(
        "hooks", [RestoreHooks(), RestoreHooks(resources=[init_hook("a", excluded_namespaces=["ns-1"])])]
    )
    async def test_a_pod_that_no_hook_is_for_stays_as_it_is(self, hooks: RestoreHooks) -> None:
        pod = hooked_pod("one")
        assert (await run("init-restore-hook", pod, hooks=hooks)).item == pod

    async def test_a_container_without_name_gets_one(self) -> None:
        fixed = uuid.UUID("12345678-0000-4000-8000-000000000000")
        pod = hooked_pod(container_image="img")
        del pod["spec"]["initContainers"]
        output = await AddInitContainers(lambda: fixed).execute(given(pod))
        assert output.item["spec"]["initContainers"] == [
            {"name": "velero-restore-init-12345678", "image": "img"}
        ]

    @pytest.mark.spec("RST-104")
    @pytest.mark.parametrize(
        ("annotation", "command"),
        [('["a","b"]', ["a", "b"]), ("[broken", ["[broken"]), ("cmd x", ["cmd x"]), (None, None)],
    )
    async def test_the_command_of_an_annotation_is_read(
        self, annotation: str | None, command: list[str] | None
    ) -> None:
        extra = {} if annotation is None else {"command": annotation}
        output = await run("init-restore-hook", hooked_pod(container_image="img", **extra))
        assert output.item["spec"]["initContainers"][0].get("command") == command

    @pytest.mark.parametrize("text", ["[1, 2]", '{"a": 1}'])
    def test_a_command_that_is_no_array_of_strings_is_one_element(self, text: str) -> None:
        assert parse_command(text) == [text]


class TestImages:
    PAIRS: ClassVar = {"a": "old.example.com:5000,new.example.com", "b": "app:1,app:2"}

    @pytest.mark.parametrize(
        "path", [("spec",), ("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec")]
    )
    async def test_images_of_pods_and_of_templates_are_changed(self, path: tuple[str, ...]) -> None:
        item: JSONObject = {
            "initContainers": [{"image": "old.example.com:5000/init:3"}],
            "containers": [
                {"image": "old.example.com:5000/app:1"},
                {"image": "app:1"},
                {"image": "db:9"},
                {},
            ],
        }
        for part in reversed(path):
            item = {part: item}

        shelf = Shelf([config("velero.io/change-image-name", self.PAIRS)])
        found: JSONObject = (await run("change-image-name", item, shelf=shelf)).item

        for part in path:
            found = found[part]
        assert found == {
            "initContainers": [{"image": "new.example.com/init:3"}],
            # One pair for each image: the first that fits.
            "containers": [{"image": "new.example.com/app:1"}, {"image": "app:2"}, {"image": "db:9"}, {}],
        }

    @pytest.mark.parametrize("value", ["", "old", "old,", ",new", "a,b,c"])
    async def test_a_value_that_is_no_pair_is_an_error_that_names_it(self, value: str) -> None:
        shelf = Shelf([config("velero.io/change-image-name", {"case": value})])
        with pytest.raises(ActionError, match=r"^case in the ConfigMap of velero\.io/change-image-name is"):
            await run("change-image-name", {"spec": {"containers": [{"image": "old"}]}}, shelf=shelf)

    async def test_without_a_config_map_images_stay(self) -> None:
        item = {"spec": {"containers": [{"image": "old"}]}}
        assert (await run("change-image-name", item)).item == item


class TestWebhooks:
    @pytest.mark.parametrize(
        ("version", "given", "expected"),
        [
            ("v1", "Unknown", "None"),
            ("v1", "Some", "None"),
            ("v1", None, "None"),
            ("v1", "None", "None"),
            ("v1", "NoneOnDryRun", "NoneOnDryRun"),
            ("v1beta1", "Some", "Some"),
        ],
    )
    async def test_side_effects_that_v1_refuses_are_declared_none(
        self, version: str, given: str | None, expected: str
    ) -> None:
        webhook = {"name": "w", **({"sideEffects": given} if given else {})}
        item: JSONObject = {"apiVersion": f"admissionregistration.k8s.io/{version}", "webhooks": [webhook]}
        output = await run("admission-webhook-configuration", item)
        assert output.item["webhooks"] == [{"name": "w", "sideEffects": expected}]
