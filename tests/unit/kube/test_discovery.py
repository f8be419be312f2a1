"""What a cluster serves and what names mean there, from documents as API servers write them."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from pinnace.api.selection.names import IncludesExcludes
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import DeadlineExceeded, InvalidResponse, ServerFault, UnknownResource
from pinnace.kube.groups import APIGroup, GroupVersion
from pinnace.kube.transport.retrying import ThrottledRetryPolicy
from tests.support.cluster.discovered import documented_discovery, resource, served
from tests.unit.kube.scripted import (
    ONE_TRY,
    ScriptedServer,
    answer_bytes,
    answer_json,
    answer_status,
    connected,
)


def groups(**versions: list[str]) -> dict[str, Any]:
    """An APIGroupList; the first version of each group is preferred. `_` stands for `.` in names."""
    return {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": name.replace("_", "."),
                "versions": [
                    {"groupVersion": f"{name.replace('_', '.')}/{version}", "version": version}
                    for version in listed
                ],
                "preferredVersion": {"version": listed[0]},
            }
            for name, listed in versions.items()
        ],
    }


PODS = resource("pods", "Pod", short=["po"])
CORE = served(
    "v1",
    resource("bindings", "Binding", verbs=["create"]),
    resource("configmaps", "ConfigMap", short=["cm"]),
    resource("events", "Event", short=["ev"]),
    resource("namespaces", "Namespace", short=["ns"], namespaced=False, singular=""),
    resource("persistentvolumeclaims", "PersistentVolumeClaim", short=["pvc"]),
    resource("persistentvolumes", "PersistentVolume", short=["pv"], namespaced=False),
    PODS,
    resource("pods/status", "Pod"),
)
APPS = served(
    "apps/v1",
    resource("deployments", "Deployment", short=["deploy"]),
    resource("deployments/scale", "Scale"),
    resource("replicasets", "ReplicaSet", short=["rs"]),
)
STORAGE = served(
    "storage.k8s.io/v1", resource("storageclasses", "StorageClass", short=["sc"], namespaced=False)
)
METRICS = served("metrics.k8s.io/v1beta1", resource("pods", "PodMetrics", verbs=["get", "list"], singular=""))
EVENTS = served("events.k8s.io/v1", resource("events", "Event", short=["ev"]))
CLUSTER = (CORE, APPS, EVENTS, STORAGE, METRICS)


@pytest.fixture
def discovery() -> Discovery:
    return documented_discovery(CLUSTER)


def names(discovery: Discovery) -> list[str]:
    return [f"{one.api_version} {one.name}" for one in discovery.resources]


@pytest.mark.spec("BKP-035")
def test_core_order() -> None:
    given = ["persistentvolumes", "configmaps", "antelopes", "persistentvolumeclaims", "pods"]
    discovery = documented_discovery([served("v1", *(resource(name, name.title()) for name in given))])
    assert [one.name for one in discovery.resources] == [
        "pods",
        "persistentvolumeclaims",
        "persistentvolumes",
        "configmaps",
        "antelopes",
    ]


@pytest.mark.spec("BKP-036")
def test_group_order() -> None:
    given = ["extensions/v1beta1", "v1", "groupC/v1", "groupA/v1", "groupB/v1", "apps/v1beta1"]
    discovery = documented_discovery([served(one, resource("things", "Thing")) for one in given])
    assert [one.api_version for one in discovery.resources] == [
        "v1",
        "groupC/v1",
        "groupA/v1",
        "groupB/v1",
        "apps/v1beta1",
        "extensions/v1beta1",
    ]


@pytest.mark.spec("BKP-039")
@pytest.mark.parametrize(
    ("verbs", "kept"),
    [
        (["list", "create"], False),
        (["get", "delete"], False),
        (["list", "create", "get", "delete"], True),
        (["delete", "get", "create", "list"], True),
        ([], False),
    ],
)
def test_needed_verbs(verbs: list[str], kept: bool) -> None:
    discovery = documented_discovery([served("v1", resource("things", "Thing", verbs=verbs))])
    assert [one.name for one in discovery.resources] == (["things"] if kept else [])
    assert [one.name for one in discovery.all_resources] == ["things"]


BATCH = (
    groups(batch=["v1", "v1beta1"]),
    served("batch/v1", resource("jobs", "Job")),
    served(
        "batch/v1beta1",
        resource("cronjobs", "CronJob"),
        resource("jobs", "Job"),
        resource("jobs/status", "Job"),
    ),
    CORE,
)


@pytest.mark.spec("SRV-026")
def test_one_version_each_or_all() -> None:
    one = documented_discovery(BATCH)
    assert [name for name in names(one) if name.startswith("batch")] == [
        "batch/v1 jobs",
        "batch/v1beta1 cronjobs",
    ]
    every = documented_discovery(BATCH, all_versions=True)
    assert [name for name in names(every) if name.startswith("batch")] == [
        "batch/v1 jobs",
        "batch/v1beta1 cronjobs",
        "batch/v1beta1 jobs",
    ]
    assert not any("/" in resource.name for resource in (*one.all_resources, *every.all_resources))


def test_the_preferred_version_need_not_be_the_first() -> None:
    outline = groups(batch=["v1", "v2"])
    outline["groups"][0]["preferredVersion"] = {"version": "v2"}
    documents = (outline, *(served(f"batch/{version}", resource("jobs", "Job")) for version in ("v1", "v2")))
    discovery = documented_discovery(documents)
    assert names(discovery) == ["batch/v2 jobs"]
    assert discovery.group_versions("batch") == ("v1", "v2")


@pytest.mark.spec("API-005", "SRV-018")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("po", "pods"),
        ("Pod", "pods"),
        ("pods", "pods"),
        ("pods.", "pods"),
        ("deploy", "deployments.apps"),
        ("deploy.apps", "deployments.apps"),
        ("deploy.app", "deployments.apps"),
        ("deployment", "deployments.apps"),
        ("Deployment.app", "deployments.apps"),
        ("storageclasses.storage", "storageclasses.storage.k8s.io"),
        ("storageclass.storage", "storageclasses.storage.k8s.io"),
        ("sc.storage", "storageclasses.storage.k8s.io"),
        ("ns", "namespaces"),
        ("namespace", "namespaces"),
        ("events", "events"),
        ("ev", "events"),
        ("events.events.k8s.io", "events.events.k8s.io"),
        ("ev.events", "events.events.k8s.io"),
    ],
)
def test_names(discovery: Discovery, name: str, expected: str) -> None:
    assert discovery.canonical(name) == expected
    assert discovery.resolve(name).group_resource == expected


@pytest.mark.spec("API-034", "BKP-065")
def test_case_matters_for_short_names_and_groups_only(discovery: Discovery) -> None:
    assert [discovery.canonical(name) for name in ("Pods", "PODS", "Deployment.apps")] == [
        "pods",
        "pods",
        "deployments.apps",
    ]
    for name in ("Po", "PO", "deployments.Apps"):
        with pytest.raises(UnknownResource):
            discovery.resolve(name)


@pytest.mark.spec("API-005")
def test_names_without_meaning_are_kept(discovery: Discovery) -> None:
    for name in ("nosuch", "*.apps", "*", "", "deployments.v1.apps", "podmetrics"):
        assert discovery.canonical(name) == name
    misspelt = IncludesExcludes([discovery.canonical("nosuch")])
    assert not any(misspelt.matches(one.group_resource) for one in discovery.resources)
    glob = IncludesExcludes([discovery.canonical("*.apps")])
    assert (glob.matches("deployments.apps"), glob.matches("pods")) == (True, False)


@pytest.mark.spec("SRV-018")
def test_unknown_names_are_errors(discovery: Discovery) -> None:
    with pytest.raises(UnknownResource, match="the server has no resource 'nosuch'"):
        discovery.resolve("nosuch")


def test_a_resource_without_the_verbs_is_known_but_refused(discovery: Discovery) -> None:
    with pytest.raises(UnknownResource) as caught:
        discovery.resolve("bindings")
    assert str(caught.value) == "APIResource not found for GroupVersionResource /v1, Resource=bindings"
    with pytest.raises(UnknownResource, match=r"metrics\.k8s\.io/v1beta1, Resource=pods"):
        discovery.resolve("pods.metrics")


def test_short_names_of_unusable_resources_are_unknown() -> None:
    documents = [
        served("v1", resource("nodes", "Node", verbs=["get"], short=["x"])),
        served("a/v1", resource("exes", "Ex", short=["x"])),
    ]
    assert documented_discovery(documents).canonical("x") == "exes.a"


def test_an_exact_group_goes_before_a_longer_one() -> None:
    documents = [
        served(f"{group}/v1", resource("things", "Thing", short=["t"])) for group in ("apps.k8s.io", "apps")
    ]
    discovery = documented_discovery(documents)
    assert [discovery.canonical(name) for name in ("things.apps", "t.apps", "things.app", "t")] == [
        "things.apps",
        "things.apps",
        "things.apps.k8s.io",
        "things.apps.k8s.io",
    ]


def test_a_name_means_the_preferred_version() -> None:
    discovery = documented_discovery(BATCH, all_versions=True)
    assert discovery.resolve("jobs").version == "v1"
    assert discovery.resolve("cronjobs").version == "v1beta1"


def test_kinds(discovery: Discovery) -> None:
    found = discovery.for_kind("apps/v1", "Deployment")
    assert found is not None
    assert (found.name, found.namespaced) == ("deployments", True)
    older = discovery.for_kind("apps/v1beta1", "Deployment")
    assert older is found
    assert discovery.for_kind("v1", "Deployment") is None
    batch = documented_discovery(BATCH)
    job = batch.for_kind("batch/v1beta1", "Job")
    assert job is not None
    assert job.version == "v1beta1"


def test_lookups(discovery: Discovery) -> None:
    assert discovery.served("deployments.apps", "v1") is discovery.preferred("deployments.apps")
    assert discovery.served("deployments.apps", "v2") is None
    assert discovery.preferred("nosuch") is None
    assert (discovery.serves_group("apps"), discovery.serves_group("nosuch")) == (True, False)
    assert discovery.group_versions("nosuch") == ()


@pytest.mark.spec("SRV-018")
def test_a_failed_group_is_a_warning() -> None:
    documents = (groups(apps=["v1"], broken_example=["v1", "v1beta1"]), CORE, APPS)
    discovery = documented_discovery(documents)
    assert discovery.warnings == (
        "Failed to discover group: broken.example/v1: not found",
        "Failed to discover group: broken.example/v1beta1: not found",
    )
    assert discovery.canonical("deployment") == "deployments.apps"
    assert discovery.serves_group("broken.example")


@pytest.mark.found("R12")
def test_all_failures_are_one_line_for_people() -> None:
    def broken(name: str, *versions: str, failure: str = "no endpoints") -> APIGroup:
        found = tuple(GroupVersion(version=version, failure=failure) for version in versions)
        return APIGroup(name=name, versions=found, preferred_version=versions[0])

    groups = [broken("a.example", "v1", "v1beta1"), broken("b.example", "v1", failure="not found")]
    assert Discovery(groups).gaps == (
        "Failed to discover 3 groups: a.example/v1, a.example/v1beta1: no endpoints; b.example/v1: not found"
    )
    assert Discovery(groups[1:]).gaps == "Failed to discover group: b.example/v1: not found"
    assert Discovery([]).gaps == ""


def test_what_is_no_discovery_document() -> None:
    with pytest.raises(InvalidResponse, match="not valid"):
        documented_discovery([{"kind": "Status"}])


@pytest.mark.found("O14a")
@pytest.mark.parametrize("form", ["aggregated", "lists"])
def test_it_knows_which_resources_have_a_status_in_which_version(form: str) -> None:
    old = served("sea.io/v1", resource("boats", "Boat"), resource("ships", "Ship"))
    new = served("sea.io/v2", resource("boats", "Boat"), resource("boats/status", "Boat"))
    documents = [old, new]
    if form == "aggregated":
        (one,), (two,) = (aggregated(document)["items"] for document in documents)
        for entry in one["versions"][0]["resources"]:
            entry["subresources"] = [{"subresource": "scale"}] if entry["resource"] == "boats" else None
        one["versions"] += two["versions"]
        documents = [{"kind": "APIGroupDiscoveryList", "items": [one]}]
    found = documented_discovery(documents)

    boats, later = found.served("boats.sea.io", "v1"), found.served("boats.sea.io", "v2")
    assert boats is not None
    assert later is not None
    assert (found.has_status(boats), found.has_status(later)) == (False, True)
    assert found.has_status(replace(boats, version="v3")) is None


# Loading from a server

VERSION = {"gitVersion": "v1.33.4", "major": "1", "minor": "33"}


def aggregated(*documents: dict[str, Any], stale: Iterable[str] = ()) -> dict[str, Any]:
    """The same as APIResourceLists, one version a group, in the aggregated form."""
    items = []
    for document in documents:
        group, _, version = document["groupVersion"].rpartition("/")
        resources = [
            {
                "resource": one["name"],
                "responseKind": {"group": group, "version": version, "kind": one["kind"]},
                "scope": "Namespaced" if one["namespaced"] else "Cluster",
                "singularResource": one["singularName"],
                "verbs": one["verbs"],
                "shortNames": one["shortNames"],
                "subresources": [{"subresource": "status", "verbs": ["get"]}],
            }
            for one in document["resources"]
            if "/" not in one["name"]
        ]
        freshness = "Stale" if group in stale else "Current"
        items.append(
            {
                "metadata": {"name": group, "creationTimestamp": None} if group else {},
                "versions": [{"version": version, "resources": resources, "freshness": freshness}],
            }
        )
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


def script_old_server(server: ScriptedServer) -> None:
    server.on("GET /version", answer_json(VERSION))
    server.on("GET /api", answer_json({"kind": "APIVersions", "versions": ["v1"]}))
    server.on("GET /api/v1", answer_json(CORE))
    outline = groups(apps=["v1"], events_k8s_io=["v1"], storage_k8s_io=["v1"], metrics_k8s_io=["v1beta1"])
    server.on("GET /apis", answer_json(outline))
    for document in CLUSTER[1:]:
        server.on(f"GET /apis/{document['groupVersion']}", answer_json(document))


async def test_two_requests_where_the_server_can(server: ScriptedServer, discovery: Discovery) -> None:
    server.on("GET /version", answer_json(VERSION))
    server.on("GET /api", answer_json(aggregated(CORE)))
    server.on("GET /apis", answer_json(aggregated(*CLUSTER[1:])))
    async with connected(server) as client:
        loaded = await Discovery.load(client)
    assert sorted(server.calls()) == ["GET /api", "GET /apis", "GET /version"]
    asked = next(seen for seen in server.seen if seen.path == "/apis")
    assert "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" in asked.headers["Accept"]
    assert loaded.all_resources == discovery.all_resources
    assert loaded.resources == discovery.resources
    assert loaded.server_version is not None
    assert loaded.server_version.git_version == "v1.33.4"


async def test_older_servers_are_asked_for_each_version(server: ScriptedServer, discovery: Discovery) -> None:
    script_old_server(server)
    async with connected(server) as client:
        loaded = await Discovery.load(client)
    assert loaded.all_resources == discovery.all_resources
    assert loaded.warnings == ()


@pytest.mark.spec("SRV-018")
async def test_a_stale_group_is_a_warning(server: ScriptedServer) -> None:
    server.on("GET /version", answer_json(VERSION))
    server.on("GET /api", answer_json(aggregated(CORE)))
    server.on("GET /apis", answer_json(aggregated(APPS, METRICS, stale=["metrics.k8s.io"])))
    async with connected(server) as client:
        loaded = await Discovery.load(client)
    assert loaded.warnings == (
        "Failed to discover group: metrics.k8s.io/v1beta1: its server did not answer the API server",
    )
    assert loaded.canonical("deploy") == "deployments.apps"
    assert not any(one.group == "metrics.k8s.io" for one in loaded.all_resources)


@pytest.mark.spec("SRV-018")
@pytest.mark.parametrize("failure", ["503", "404", "hangs", "nonsense"])
async def test_a_broken_group_is_a_warning(server: ScriptedServer, failure: str) -> None:
    script_old_server(server)
    answers = {
        "503": answer_bytes(b"service unavailable", code=503),
        "404": answer_status(404, "NotFound", "the server could not\nfind it"),
        "hangs": server.stall(),
        "nonsense": answer_bytes(b"{"),
    }
    server.on("GET /apis/metrics.k8s.io/v1beta1", answers[failure])
    seconds = 0.5 if failure == "hangs" else 30.0
    async with connected(server, timeout_seconds=seconds, retry=ThrottledRetryPolicy(attempts=2)) as client:
        loaded = await Discovery.load(client)
    (warning,) = loaded.warnings
    assert warning.startswith("Failed to discover group: metrics.k8s.io/v1beta1: ")
    assert "\n" not in warning
    assert loaded.canonical("deploy") == "deployments.apps"


async def test_without_core_there_is_no_discovery(server: ScriptedServer) -> None:
    script_old_server(server)
    server.on("GET /api/v1", answer_status(503, "", "etcd is gone"))
    async with connected(server, retry=ONE_TRY) as client:
        with pytest.raises(InvalidResponse, match="discovery of v1 failed: etcd is gone"):
            await Discovery.load(client)
    server.on("GET /api", answer_json(aggregated()))
    async with connected(server, retry=ONE_TRY) as client:
        with pytest.raises(InvalidResponse, match="serves no core group"):
            await Discovery.load(client)


@pytest.mark.spec("SRV-018")
async def test_a_failed_load_leaves_the_old_snapshot(server: ScriptedServer) -> None:
    script_old_server(server)
    async with connected(server, retry=ONE_TRY) as client:
        old = await Discovery.load(client)
        before = (old.resources, old.warnings)
        server.on("GET /apis", answer_status(500))
        with pytest.raises(ServerFault):
            await Discovery.load(client)
    assert (old.resources, old.warnings) == before
    assert old.canonical("deploy") == "deployments.apps"


async def test_a_server_that_hangs_is_not_a_warning(server: ScriptedServer) -> None:
    script_old_server(server)
    server.on("GET /apis", server.stall())
    async with connected(server, timeout_seconds=0.05, retry=ONE_TRY) as client:
        with pytest.raises(DeadlineExceeded):
            await Discovery.load(client)
