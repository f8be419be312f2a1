"""Restores into a real API server, with its defaults and refusals, and second runs."""

import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import Rewrite, watch_expired
from hack.cluster.proxy import FaultProxy
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    APIResource,
)
from pinnace.restore import definitions
from pinnace.restore.request import RestoreSettings
from tests.support.cluster.connect import Connect
from tests.support.cluster.namespaces import erase_namespace
from tests.support.runs.real_restores import RealRestore
from tests.support.waiting import eventually

ROLE_BINDINGS = APIResource(
    group="rbac.authorization.k8s.io",
    version="v1",
    name="rolebindings",
    kind="RoleBinding",
    namespaced=True,
)

PRIORITY_CLASSES = APIResource(
    group="scheduling.k8s.io",
    version="v1",
    name="priorityclasses",
    kind="PriorityClass",
    namespaced=False,
)

RUNTIME_CLASSES = APIResource(
    group="node.k8s.io", version="v1", name="runtimeclasses", kind="RuntimeClass", namespaced=False
)


def obj(kind: str, name: str, namespace: str = "", *, api_version: str = "v1", **fields: Any) -> JSONObject:
    metadata: JSONObject = {"name": name, "uid": "11111111-0000-4000-8000-000000000000"}
    if namespace:
        metadata["namespace"] = namespace
    for field in ("labels", "annotations", "ownerReferences", "finalizers"):
        if field in fields:
            metadata[field] = fields.pop(field)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


NAME_LABEL = "kubernetes.io/metadata.name"
NETWORKING = "networking.k8s.io/v1"
POD_SPEC = {"containers": [{"name": "c", "image": "example.com/c:1"}]}


@pytest.fixture
async def target(control_plane: ControlPlane, client: KubeClient) -> AsyncIterator[str]:
    """The name of a namespace that does not exist yet."""
    name = f"restored-{secrets.token_hex(4)}"
    yield name
    await erase_namespace(control_plane, client, name)


@pytest.fixture
async def cluster_name(client: KubeClient) -> AsyncIterator[str]:
    """A name for a PersistentVolume that does not exist yet."""
    name = f"pv-{secrets.token_hex(4)}"
    yield name
    try:
        await client.delete(PERSISTENT_VOLUMES, name)
        await client.patch(PERSISTENT_VOLUMES, name, {"metadata": {"finalizers": None}})
    except NotFound:
        return


def application(volume: str) -> list[JSONObject]:
    """A small application in namespace `src` as a backup holds it, with what a cluster adds."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "rs",
        "uid": "22222222",
        "controller": True,
    }
    return [
        obj("Namespace", "src", labels={"team": "a"}, spec={"finalizers": ["kubernetes"]}),
        obj("ServiceAccount", "default", "src", secrets=[{"name": "default-token-abcde"}]),
        obj("ConfigMap", "settings", "src", data={"a": "b"}, finalizers=["example.com/never"]),
        obj("Secret", "password", "src", data={"p": "eA=="}, type="Opaque"),
        obj(
            "Service",
            "web",
            "src",
            spec={
                "clusterIP": "10.255.255.254",
                "clusterIPs": ["10.255.255.254"],
                "type": "NodePort",
                "ports": [{"name": "http", "port": 80, "nodePort": 1}],
            },
            status={"loadBalancer": {}},
        ),
        obj("Service", "headless", "src", spec={"clusterIP": "None", "ports": [{"port": 80}]}),
        obj(
            "Deployment",
            "app",
            "src",
            api_version="apps/v1",
            spec={
                "replicas": 0,
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC},
            },
            status={"replicas": 3},
        ),
        obj(
            "Pod",
            "app-1",
            "src",
            labels={"app": "x"},
            ownerReferences=[owner],
            spec={
                **POD_SPEC,
                "nodeName": "gone",
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
            status={"phase": "Running"},
        ),
        obj(
            "PersistentVolumeClaim",
            "data",
            "src",
            annotations={"pv.kubernetes.io/bind-completed": "yes"},
            spec={
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "",
                "volumeName": volume,
            },
            status={"phase": "Bound"},
        ),
        obj(
            "PersistentVolume",
            volume,
            spec={
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": "/data"},
                "claimRef": {"namespace": "src", "name": "data", "uid": "old", "resourceVersion": "1"},
            },
            status={"phase": "Bound"},
        ),
        obj(
            "RoleBinding",
            "may",
            "src",
            api_version="rbac.authorization.k8s.io/v1",
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            subjects=[
                {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
                for namespace in ("src", "unmapped")
            ],
        ),
    ]


@pytest.mark.spec("RST-028", "RST-050", "RST-062", "RST-063", "RST-075", "RST-078")
async def test_an_application_comes_back_in_another_namespace(
    client: KubeClient, restore: RealRestore, target: str, cluster_name: str
) -> None:
    items = application(cluster_name)

    results = await restore(*items, namespace_mapping={"src": target})

    assert results.to_dict() == {"errors": {}, "warnings": {}}
    namespace = await client.get(NAMESPACES, target)
    assert namespace["metadata"]["labels"]["team"] == "a"
    assert "velero.io/restore-name" not in namespace["metadata"]["labels"]
    settings = await client.get(CONFIGMAPS, "settings", target)
    assert settings["data"] == {"a": "b"}
    assert settings["metadata"]["labels"] == {
        "velero.io/backup-name": "backup-1",
        "velero.io/restore-name": restore.name,
    }
    assert "finalizers" not in settings["metadata"]
    web = await client.get(SERVICES, "web", target)
    assert web["spec"]["clusterIP"] != "10.255.255.254"
    assert web["spec"]["ports"][0]["nodePort"] != 1
    assert (await client.get(SERVICES, "headless", target))["spec"]["clusterIP"] == "None"
    pod = await client.get(PODS, "app-1", target)
    assert "nodeName" not in pod["spec"]
    assert "ownerReferences" not in pod["metadata"]
    binding = await client.get(ROLE_BINDINGS, "may", target)
    assert [subject["namespace"] for subject in binding["subjects"]] == [target, "unmapped"]
    claim = await client.get(PERSISTENT_VOLUME_CLAIMS, "data", target)
    assert claim["spec"]["volumeName"] == cluster_name
    claim_ref = (await client.get(PERSISTENT_VOLUMES, cluster_name))["spec"]["claimRef"]
    assert (claim_ref["namespace"], claim_ref["name"]) == (target, "data")
    assert claim_ref.get("uid") != "old"


async def test_a_second_run_creates_nothing_and_overwrites_nothing(
    client: KubeClient, restore: RealRestore, target: str, cluster_name: str
) -> None:
    items = application(cluster_name)
    await restore(*items, namespace_mapping={"src": target})
    before = {name: await versions(client, target, name) for name in (CONFIGMAPS, SECRETS, SERVICES)}

    results = await restore(*items, namespace_mapping={"src": target})

    assert results.errors.count == 0
    # The server's defaults make specs differ from the few lines above; plain data does not differ.
    differing = " ".join(text for _, text in results.warnings.notices())
    assert "configmaps" not in differing
    assert "secrets" not in differing
    assert {name: await versions(client, target, name) for name in before} == before


async def versions(client: KubeClient, namespace: str, resource: APIResource) -> dict[str, str]:
    found = await client.list_all(resource, namespace)
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in found}


async def test_what_was_read_from_the_cluster_comes_back_identical(
    client: KubeClient, restore: RealRestore, target: str, cluster_name: str
) -> None:
    """A backup of what a restore made, restored over it: complete objects make no difference at all."""
    await restore(*application(cluster_name), namespace_mapping={"src": target})
    kinds = (CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS, PERSISTENT_VOLUME_CLAIMS)
    taken = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **item}
        for kind in kinds
        for item in await client.list_all(kind, target)
    ]

    results = await restore(*taken)

    assert results.errors.count == 0
    assert [text for _, text in results.warnings.notices() if "persistentvolumeclaims" not in text] == []


@pytest.mark.spec("RST-047")
async def test_an_object_with_other_data_is_a_warning_and_stays(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    theirs = obj("ConfigMap", "cm", namespace, data={"a": "theirs"})
    del theirs["metadata"]["uid"]
    before = await client.create(CONFIGMAPS, theirs, namespace)

    results = await restore(obj("ConfigMap", "cm", namespace, data={"a": "ours"}))

    assert results.warnings.namespaces == {
        namespace: [
            'could not restore, configmaps "cm" already exists. Warning: the in-cluster version is '
            "different than the backed-up version."
        ]
    }
    assert await client.get(CONFIGMAPS, "cm", namespace) == before


@pytest.mark.spec("RST-048")
async def test_an_object_the_server_refuses_is_an_error(restore: RealRestore, namespace: str) -> None:
    bad = obj("ConfigMap", "bad", namespace, data={"not a key!": "x"})

    results = await restore(bad, obj("ConfigMap", "good", namespace))

    (message,) = results.errors.namespaces[namespace]
    assert message.startswith(f"error restoring configmaps/{namespace}/bad: ConfigMap ")
    assert results.errors.count == 1


@pytest.mark.spec("RST-044")
async def test_a_service_account_gets_what_it_lacks(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    async def made() -> bool:
        return "default" in await versions(client, namespace, SERVICE_ACCOUNTS)

    await eventually(made)

    results = await restore(
        obj(
            "ServiceAccount",
            "default",
            namespace,
            labels={"a": "b"},
            secrets=[{"name": "secret-1"}],
            imagePullSecrets=[{"name": "pull-secret-1"}],
        )
    )

    assert results.empty
    account = await client.get(SERVICE_ACCOUNTS, "default", namespace)
    assert {"name": "secret-1"} in account["secrets"]
    assert account["imagePullSecrets"] == [{"name": "pull-secret-1"}]
    assert account["metadata"]["labels"] == {"a": "b"}, "no label of the restore"


@pytest.mark.spec("RST-049")
async def test_a_namespace_that_does_not_go_away_is_waited_for_once(
    client: KubeClient, restore: RealRestore, target: str
) -> None:
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target}})
    stuck = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "stuck", "finalizers": ["example.com/held"]},
    }
    await client.create(CONFIGMAPS, stuck, target)
    await client.delete(NAMESPACES, target)

    results = await restore(
        obj("ConfigMap", "a", target),
        obj("ConfigMap", "b", target),
        options=RestoreSettings(terminating_timeout_seconds=1),
    )

    text = f"error getting namespace {target}: timed out waiting for the condition"
    assert results.errors.to_dict() == {"velero": [text, text]}
    await client.patch(CONFIGMAPS, "stuck", {"metadata": {"finalizers": None}}, target)


@pytest.fixture
async def definition(client: KubeClient) -> AsyncIterator[JSONObject]:
    """A definition of a kind that no cluster has; deleted afterwards."""
    word = f"ship{secrets.token_hex(3)}"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    names = {"plural": f"{word}s", "singular": word, "kind": word.capitalize(), "listKind": f"{word}List"}
    spec = {"group": "sea.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    name = f"{word}s.sea.example.com"
    yield obj("CustomResourceDefinition", name, api_version="apiextensions.k8s.io/v1", spec=spec)
    try:
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        return


@pytest.mark.spec("RST-033")
async def test_custom_resources_come_back_with_their_definition(
    client: KubeClient, restore: RealRestore, target: str, definition: JSONObject
) -> None:
    names = definition["spec"]["names"]
    ship = obj(names["kind"], "one", target, api_version="sea.example.com/v1", spec={"masts": 3})

    results = await restore(definition, ship)

    assert results.to_dict() == {"errors": {}, "warnings": {}}
    resource = APIResource(
        group="sea.example.com", version="v1", name=names["plural"], kind=names["kind"], namespaced=True
    )
    assert (await client.get(resource, "one", target))["spec"] == {"masts": 3}


@pytest.mark.found("R2")
async def test_an_object_that_was_written_in_an_older_version_comes_back(
    client: KubeClient, restore: RealRestore, target: str, definition: JSONObject
) -> None:
    """The preferred version is stricter, as v2 of Crossplane's and v1 of the Gateway API's kinds are."""
    scopes = {"v2": ["Namespaced", "Cluster"], "v1": ["Legacy", "Namespaced", "Cluster"]}
    definition["spec"]["versions"] = [
        {
            "name": version,
            "served": True,
            "storage": version == "v1",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {"scope": {"type": "string", "enum": allowed}},
                        }
                    },
                }
            },
        }
        for version, allowed in scopes.items()
    ]
    names = definition["spec"]["names"]
    ships = [
        obj(names["kind"], name, target, api_version="sea.example.com/v2", spec={"scope": scope})
        for name, scope in (("old", "Legacy"), ("new", "Cluster"), ("wrong", "None"))
    ]

    results = await restore(definition, *ships)

    (error,) = results.errors.namespaces[target]
    assert error.startswith(f"error restoring {names['plural']}.sea.example.com/{target}/wrong: ")
    assert "; in version v1: " in error
    resource = APIResource(
        group="sea.example.com", version="v1", name=names["plural"], kind=names["kind"], namespaced=True
    )
    stored = await client.list_all(resource, target)
    assert {each["metadata"]["name"]: each["spec"]["scope"] for each in stored} == {
        "new": "Cluster",
        "old": "Legacy",
    }
    listed = restore.outcomes.resource_list()
    assert listed[f"sea.example.com/v1/{names['kind']}"] == [f"{target}/old(created)"]


@pytest.mark.spec("RST-071")
async def test_a_job_gets_labels_of_its_own(client: KubeClient, restore: RealRestore, namespace: str) -> None:
    uid = {"controller-uid": "old", "batch.kubernetes.io/controller-uid": "old"}
    template = {
        "metadata": {"labels": {**uid, "job-name": "job", "batch.kubernetes.io/job-name": "job"}},
        "spec": {**POD_SPEC, "restartPolicy": "Never"},
    }
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": "old"}}
    job = obj(
        "Job", "job", namespace, api_version="batch/v1", spec={"selector": selector, "template": template}
    )

    results = await restore(job)

    assert results.empty
    restored = await client.get(JOBS, "job", namespace)
    assert restored["metadata"]["uid"] in restored["spec"]["selector"]["matchLabels"].values()


async def test_a_token_secret_is_filled_for_the_account_of_this_cluster(
    client: KubeClient, restore: RealRestore, target: str
) -> None:
    prefix = "kubernetes.io/service-account"
    token = obj(
        "Secret",
        "robot-token",
        target,
        type=f"{prefix}-token",
        annotations={f"{prefix}.name": "robot", f"{prefix}.uid": "33333333-0000-4000-8000-000000000000"},
        data={"token": "b2xk", "ca.crt": "b2xk"},
    )

    results = await restore(token, obj("ServiceAccount", "robot", target))

    assert results.empty

    async def filled() -> bool:
        secret = await client.get(SECRETS, "robot-token", target)
        return bool(secret.get("data", {}).get("token", "b2xk") != "b2xk")

    await eventually(filled)


async def test_a_node_port_that_another_service_has_is_an_error(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    metadata = {"name": "first"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    first = await client.create(SERVICES, service, namespace)
    port = first["spec"]["ports"][0]["nodePort"]
    taken = {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}

    refused = await restore(obj("Service", "second", namespace, spec=taken), preserve_node_ports=True)
    again = await restore({"apiVersion": "v1", "kind": "Service", **first}, preserve_node_ports=True)

    (message,) = refused.errors.namespaces[namespace]
    assert "provided port is already allocated" in message
    assert again.errors.count == 0, "the Service itself has the port"


ADMISSION = "admissionregistration.k8s.io"
VALIDATING_WEBHOOKS = APIResource(
    group=ADMISSION,
    version="v1",
    name="validatingwebhookconfigurations",
    kind="ValidatingWebhookConfiguration",
    namespaced=False,
)
EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}


def _webhooks(kind: str, name: str, namespace: str) -> JSONObject:
    """Webhooks for one namespace, whose server does not run."""
    webhook = {
        "name": "down.pinnace.io",
        "rules": [EVERYTHING],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return obj(kind, name, api_version=f"{ADMISSION}/v1", webhooks=[webhook])


async def test_webhooks_of_the_backup_refuse_nothing_of_it(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    """Their servers are in the backup too: until those run, the webhooks refuse whatever is created."""
    kinds = {
        "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
        "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    }
    name = f"down-{secrets.token_hex(4)}"
    stateful = {
        "serviceName": "db",
        "replicas": 0,
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": POD_SPEC},
    }

    results = await restore(
        *(_webhooks(kind, name, namespace) for kind in kinds),
        obj("StatefulSet", "db", namespace, api_version="apps/v1", spec=stateful),
        obj("ResourceQuota", "quota", namespace, spec={"hard": {"pods": "10"}}),
    )

    for kind, plural in kinds.items():
        resource = APIResource(group=ADMISSION, version="v1", name=plural, kind=kind, namespaced=False)
        await client.delete(resource, name)
    assert results.to_dict() == {"errors": {}, "warnings": {}}


@pytest.mark.found("R7")
async def test_webhooks_come_after_the_objects_of_a_definition_that_is_established_late(
    control_plane: ControlPlane,
    fault_proxy: Callable[[ControlPlane], Awaitable[FaultProxy]],
    connect: Connect,
    client: KubeClient,
    target: str,
    definition: JSONObject,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the restore the definition looks as before it is established until the main pass has begun."""
    monkeypatch.setattr(definitions, "PATIENCE_SECONDS", 2.0)
    proxy = await fault_proxy(control_plane)
    name, names = definition["metadata"]["name"], definition["spec"]["names"]
    group = f"{target}.example.com"
    definition["metadata"]["name"] = name = f"{names['plural']}.{group}"
    definition["spec"]["group"] = group
    maps = f"/api/v1/namespaces/{target}/configmaps"

    def without_status(body: bytes) -> bytes:
        found = orjson.loads(body)
        if not proxy.count(method="POST", path=maps):
            found.pop("status", None)
        return orjson.dumps(found)

    def without_group(body: bytes) -> bytes:
        found = orjson.loads(body)
        if not proxy.count(method="POST", path=maps):
            for member in ("items", "groups"):
                groups = found.get(member, [])
                found |= {
                    member: [each for each in groups if (each.get("metadata") or each)["name"] != group]
                }
        return orjson.dumps(found)

    definitions_path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    proxy.rules.add(Rewrite(without_status), method="GET", path=f"^{definitions_path}/{name}$")
    proxy.rules.add(watch_expired(), path=f"^{definitions_path}$", query={"watch": "."})
    proxy.rules.add(Rewrite(without_group), method="GET", path="^/apis$")
    restore = RealRestore(await connect(control_plane, via=proxy), tmp_path)
    hook = f"down-{secrets.token_hex(4)}"
    try:
        results = await restore(
            _webhooks("ValidatingWebhookConfiguration", hook, target),
            definition,
            obj("ConfigMap", "in-the-main-pass", target),
            obj(names["kind"], "one", target, api_version=f"{group}/v1", spec={"masts": 3}),
        )
    finally:
        with contextlib.suppress(NotFound):
            await client.delete(VALIDATING_WEBHOOKS, hook)
        with contextlib.suppress(NotFound):
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)

    assert results.to_dict() == {"errors": {}, "warnings": {}}
    created = [exchange.head.path for exchange in proxy.exchanges if exchange.head.method == "POST"]
    late = f"/apis/{group}/v1/namespaces/{target}/{names['plural']}"
    webhooks = VALIDATING_WEBHOOKS.path(None)
    assert created.index(maps) < created.index(late) < created.index(webhooks)


async def test_many_items_of_many_namespaces(client: KubeClient, restore: RealRestore, target: str) -> None:
    items = [obj("ConfigMap", f"cm-{index:03}", target, data={"n": str(index)}) for index in range(300)]

    results = await restore(*items)

    assert results.empty
    names = await versions(client, target, CONFIGMAPS)
    assert {f"cm-{index:03}" for index in range(300)} <= set(names)
    assert restore.progress.last == (301, 301)


@pytest.mark.spec("RST-032")
async def test_objects_of_a_kind_that_the_cluster_lacks_are_errors(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    widgets = [obj("Widget", name, namespace, api_version="not.served.example/v1") for name in ("a", "b")]

    results = await restore(*widgets, obj("ConfigMap", "cm", namespace))

    assert results.errors.namespaces == {
        namespace: [
            f"error restoring widgets.not.served.example/{namespace}/{name}:"
            " the cluster does not serve widgets.not.served.example"
            for name in ("a", "b")
        ]
    }
    assert await client.get(CONFIGMAPS, "cm", namespace)


async def test_a_restore_of_nothing_says_so(restore: RealRestore, namespace: str) -> None:
    items = [obj("ConfigMap", "cm", namespace)]

    misspelt = await restore(*items, included_resources=["deploymnets"])
    elsewhere = await restore(*items, included_namespaces=["nosuchns"])

    (problem,) = misspelt.errors.velero
    assert "deploymnets" in problem
    assert "did you mean deployments" in problem
    assert misspelt.warnings.velero[-1].startswith("nothing was restored: the only object")
    assert elsewhere.errors.count == 0
    assert 'names "nosuchns"' in elsewhere.warnings.velero[0]
    assert elsewhere.warnings.velero[1].startswith("nothing was restored: ")


@pytest.mark.found("O15a", "O15b", "O17a")
async def test_jobs_run_once_and_an_exceeded_quota_is_said(
    client: KubeClient, restore: RealRestore, target: str
) -> None:
    """The pod of a running Job would do its work beside the one that the restored Job makes."""
    template = {"spec": {**POD_SPEC, "restartPolicy": "Never"}}

    def job(name: str, **status: Any) -> JSONObject:
        spec = {"backoffLimit": 0, "template": template}
        return obj("Job", name, target, api_version="batch/v1", spec=spec, status=status)

    ended = job("failed", conditions=[{"type": "Failed", "status": "True"}])
    running = job("migrate")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "migrate", "controller": True}
    owner["uid"] = running["metadata"]["uid"]

    results = await restore(
        ended,
        running,
        obj("Pod", "migrate-1", target, ownerReferences=[owner], spec=template["spec"]),
        *(obj("Pod", name, target, spec=POD_SPEC) for name in ("one", "two")),
        obj("ResourceQuota", "few", target, spec={"hard": {"pods": "1"}}),
    )

    assert results.errors.count == 0
    (warning,) = results.warnings.namespaces[target]
    assert f"resourcequotas/{target}/few: what is in its namespace exceeds it (pods: " in warning
    outcomes = restore.outcomes.resource_list()
    assert outcomes["batch/v1/Job"] == [f"{target}/failed(skipped)", f"{target}/migrate(created)"]
    assert f"{target}/migrate-1(skipped)" in outcomes["v1/Pod"]
    assert set(await versions(client, target, JOBS)) == {"migrate"}

    async def pods() -> list[str]:
        return sorted(await versions(client, target, PODS))

    assert (await pods())[-2:] == ["one", "two"]
    assert "migrate-1" not in await pods()


@pytest.mark.found("O11", "O35")
async def test_what_names_the_old_namespace_is_said_before_and_after(
    client: KubeClient, restore: RealRestore, target: str, definition: JSONObject
) -> None:
    admission, policy = "admissionregistration.k8s.io/v1", {"matchLabels": {NAME_LABEL: "src"}}
    webhook = {
        "name": "v.lab.example",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": {"name": "hook", "namespace": "src"}},
        "rules": [
            {"apiGroups": ["x.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}
        ],
    }
    peers = [{"from": [{"namespaceSelector": policy}]}]
    items = [
        obj("ConfigMap", "settings", "src"),
        obj(
            "NetworkPolicy", "own", "src", api_version=NETWORKING, spec={"podSelector": {}, "ingress": peers}
        ),
        obj("ValidatingWebhookConfiguration", target, api_version=admission, webhooks=[webhook]),
        obj(
            "ValidatingAdmissionPolicyBinding",
            target,
            api_version=admission,
            spec={
                "policyName": target,
                "validationActions": ["Audit"],
                "paramRef": {
                    "name": "p",
                    "namespace": "src",
                    "parameterNotFoundAction": "Allow",
                },
                "matchResources": {"namespaceSelector": policy},
            },
        ),
    ]
    service = {"name": "hook", "namespace": "src"}
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]},
    }
    definition["spec"]["conversion"] = conversion
    group = f"{target}.lab.example"
    grant = deepcopy(definition)
    grant["metadata"]["name"] = f"referencegrants.{group}"
    grant["spec"] |= {
        "group": group,
        "names": {"plural": "referencegrants", "kind": "ReferenceGrant"},
        "conversion": {"strategy": "None"},
    }
    peer = {"group": group, "kind": "Route", "namespace": "src"}
    items += [
        obj(
            "APIService",
            f"v1.down.{group}",
            api_version="apiregistration.k8s.io/v1",
            spec={
                "group": f"down.{group}",
                "version": "v1",
                "service": service,
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        ),
        definition,
        grant,
        obj(
            "ReferenceGrant",
            "from-the-original",
            "src",
            api_version=f"{group}/v1",
            spec={"from": [peer], "to": [{"group": "", "kind": "Service"}]},
        ),
    ]
    mapping = {"src": target}

    foreseen = await restore(*items, namespace_mapping=mapping, is_dry_run=True)
    discovery = await Discovery.load(client)
    try:
        results = await restore(*items, namespace_mapping=mapping)
    finally:
        for item in items:
            resource = discovery.for_kind(item["apiVersion"], item["kind"])
            if resource is not None and not resource.namespaced:
                with contextlib.suppress(NotFound):
                    await client.delete(resource, item["metadata"]["name"])

    (warning,) = results.warnings.velero
    assert (results.errors.count, results.warnings.to_dict()) == (0, {"velero": [warning]})
    assert foreseen.to_dict() == results.to_dict()
    assert warning.startswith("6 objects still name a mapped namespace by its old name")
    for kind, name, field in (
        ("networkpolicies.networking.k8s.io", f"{target}/own", "spec.ingress[0].from[0]."),
        (
            f"validatingwebhookconfigurations.{ADMISSION}",
            target,
            "webhooks[0].clientConfig.service.namespace)",
        ),
        (f"validatingadmissionpolicybindings.{ADMISSION}", target, "spec.paramRef.namespace and 1 more)"),
        ("apiservices.apiregistration.k8s.io", f"v1.down.{group}", "spec.service.namespace)"),
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            definition["metadata"]["name"],
            "spec.conversion.webhook.clientConfig.service.namespace)",
        ),
        (f"referencegrants.{group}", f"{target}/from-the-original", "spec.from[0].namespace)"),
    ):
        assert f"{kind}/{name} ({field}" in warning


@pytest.mark.found("O17b", "O17c")
@pytest.mark.parametrize("in_backup", [True, False])
async def test_a_pod_brings_its_classes_into_a_cluster_that_lacks_them(
    client: KubeClient, restore: RealRestore, target: str, *, in_backup: bool
) -> None:
    """Though only one namespace is restored; a class that an old backup lacks is no warning of its own.

    The values that the old cluster computed from its classes are not those of this cluster's.
    """
    name = f"class-{target}"
    urgent = obj("PriorityClass", name, api_version="scheduling.k8s.io/v1", value=5, preemptionPolicy="Never")
    overhead = {"podFixed": {"cpu": "10m"}}
    kata = obj("RuntimeClass", name, api_version="node.k8s.io/v1", handler="kata", overhead=overhead)
    spec = {
        **POD_SPEC,
        "priorityClassName": name,
        "priority": 7,
        "preemptionPolicy": "PreemptLowerPriority",
        "runtimeClassName": name,
        "overhead": {"cpu": "99m", "memory": "1Mi"},
        "ephemeralContainers": [{"name": "debugger", "image": "example.com/d:1"}],
    }
    if not in_backup:
        await client.create(PRIORITY_CLASSES, urgent)
        await client.create(RUNTIME_CLASSES, kata)
    try:
        results = await restore(
            *([urgent, kata] if in_backup else []),
            obj("Pod", "pod", "src", spec=spec),
            included_namespaces=["src"],
            namespace_mapping={"src": target},
        )

        assert results.to_dict() == {"errors": {}, "warnings": {}}
        restored = (await client.get(PODS, "pod", target))["spec"]
        assert (restored["priority"], restored["preemptionPolicy"]) == (5, "Never")
        assert restored["overhead"] == {"cpu": "10m"}
    finally:
        await client.delete(PRIORITY_CLASSES, name)
        await client.delete(RUNTIME_CLASSES, name)


@pytest.mark.found("O17c")
async def test_a_pod_goes_where_the_runtime_class_of_this_cluster_says(
    client: KubeClient, restore: RealRestore, target: str
) -> None:
    name = f"class-{target}"

    def kata(pool: str) -> JSONObject:
        taint = {"key": pool, "operator": "Exists", "effect": "NoSchedule"}
        scheduling = {"nodeSelector": {"pool": pool}, "tolerations": [taint]}
        return obj("RuntimeClass", name, api_version="node.k8s.io/v1", handler="kata", scheduling=scheduling)

    old = kata("old")["scheduling"]
    spec = {
        **POD_SPEC,
        "runtimeClassName": name,
        "nodeSelector": {**old["nodeSelector"], "disk": "fast"},
        "tolerations": old["tolerations"],
    }
    await client.create(RUNTIME_CLASSES, kata("new"))
    try:
        results = await restore(kata("old"), obj("Pod", "pod", target, spec=spec))

        assert results.errors.count == 0
        restored = (await client.get(PODS, "pod", target))["spec"]
        assert restored["nodeSelector"] == {"pool": "new", "disk": "fast"}
        tolerated = {each["key"] for each in restored["tolerations"]}
        assert "new" in tolerated
        assert "old" not in tolerated
    finally:
        await client.delete(RUNTIME_CLASSES, name)
