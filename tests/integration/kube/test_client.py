"""The client against a real API server, without scripted answers."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import CutBody, ExpireContinue, server_fault, too_many_requests
from hack.cluster.proxy import FaultProxy
from pinnace.kube.client import KubeClient
from pinnace.kube.config import in_cluster_config, load_config
from pinnace.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    InvalidName,
    NotFound,
    Unauthorized,
)
from pinnace.kube.lists.pages import list_outline
from pinnace.kube.resources import (
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    APIResource,
)
from tests.support.cluster.connect import Connect
from tests.support.waiting import PATIENCE_SECONDS

StartProxy = Callable[[ControlPlane], Awaitable[FaultProxy]]
REVIEWS = APIResource(
    group="authentication.k8s.io",
    version="v1",
    name="selfsubjectreviews",
    kind="SelfSubjectReview",
    namespaced=False,
    verbs=frozenset({"create"}),
)
WIDGETS = APIResource(group="kube-test.example", version="v1", name="widgets", kind="Widget", namespaced=True)


def configmap(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"n": name}},
        "data": data,
    }


async def fill(client: KubeClient, namespace: str, count: int) -> list[str]:
    names = [f"item-{number:03}" for number in range(count)]
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(client.create(CONFIGMAPS, configmap(name), namespace))
    return names


async def listed(client: KubeClient, namespace: str, **options: Any) -> list[list[str]]:
    # Without kube-root-ca.crt, which every namespace gets sooner or later.
    return [
        [item.name for item in page.items if item.name.startswith("item-")]
        async for page in client.list_pages(CONFIGMAPS, namespace, **options)
    ]


def joined(pages: list[list[str]]) -> list[str]:
    return list(chain.from_iterable(pages))


async def test_an_object_is_created_read_changed_and_deleted(client: KubeClient, namespace: str) -> None:
    created = await client.create(CONFIGMAPS, configmap("a", k="1"), namespace)
    assert await client.get(CONFIGMAPS, "a", namespace) == created
    patched = await client.patch(CONFIGMAPS, "a", {"data": {"k": None, "l": "2"}}, namespace)
    assert patched["data"] == {"l": "2"}
    replaced = await client.replace(CONFIGMAPS, "a", {**patched, "data": {"m": "3"}}, namespace)
    assert replaced["data"] == {"m": "3"}
    await client.delete(CONFIGMAPS, "a", namespace, uid=created["metadata"]["uid"])
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await client.get(CONFIGMAPS, "a", namespace)


async def test_refusals_of_the_api_server_have_their_own_errors(client: KubeClient, namespace: str) -> None:
    created = await client.create(CONFIGMAPS, configmap("a"), namespace)
    with pytest.raises(AlreadyExists):
        await client.create(CONFIGMAPS, configmap("a"), namespace)
    with pytest.raises(Invalid):
        await client.create(CONFIGMAPS, configmap("Not A Name"), namespace)
    with pytest.raises(BadRequest):
        await client.create_bytes(CONFIGMAPS, b"{", namespace)
    with pytest.raises(Conflict):
        await client.delete(CONFIGMAPS, "a", namespace, uid="somebody-else")
    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"k": "2"}}
    await client.patch(CONFIGMAPS, "a", {"data": {"k": "1"}}, namespace)
    with pytest.raises(Conflict):
        await client.patch(CONFIGMAPS, "a", stale, namespace)


async def test_a_dry_run_leaves_nothing(client: KubeClient, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, configmap("a"), namespace, dry_run=True)
    assert made["metadata"]["uid"]
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "a", namespace)


@pytest.mark.parametrize("prefetch", [0, 1, 4])
async def test_a_list_is_read_page_by_page(client: KubeClient, namespace: str, prefetch: int) -> None:
    names = await fill(client, namespace, 23)
    pages = await listed(client, namespace, limit=5, prefetch=prefetch)
    assert joined(pages) == names
    assert len(pages) == 5
    assert await listed(client, namespace, label_selector="n in (item-003,item-007)") == [
        ["item-003", "item-007"]
    ]
    assert await listed(client, namespace, field_selector="metadata.name=item-001") == [["item-001"]]


async def test_items_of_a_list_equal_the_objects_of_get(client: KubeClient, namespace: str) -> None:
    body = configmap("item-1", text='ümlaut \u2028 "quoted" \\ {}[]', empty="")
    created = await client.create(CONFIGMAPS, body, namespace)
    pages = [page async for page in client.list_pages(CONFIGMAPS, namespace, label_selector="n=item-1")]
    (item,) = (item for page in pages for item in page.items)
    assert json.loads(item.json()) == item.decode() == created
    assert (item.name, item.namespace, item.labels, item.deleting) == (
        "item-1",
        namespace,
        {"n": "item-1"},
        False,
    )


@pytest.fixture
async def widgets(client: KubeClient) -> AsyncIterator[APIResource]:
    """A custom resource, whose lists the server writes in another order of fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.kube-test.example"},
        "spec": {
            "group": WIDGETS.group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    created = await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    events = client.watch(
        CUSTOM_RESOURCE_DEFINITIONS,
        resource_version=created["metadata"]["resourceVersion"],
        field_selector="metadata.name=widgets.kube-test.example",
    )
    async with asyncio.timeout(PATIENCE_SECONDS), aclosing(events):
        async for event in events:
            conditions = event.object.get("status", {}).get("conditions") or []
            if any((one["type"], one["status"]) == ("Established", "True") for one in conditions):
                break
    yield WIDGETS
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.kube-test.example")


async def test_custom_resources_page_without_decoding(
    client: KubeClient, namespace: str, widgets: APIResource
) -> None:
    for number in range(5):
        body = {"apiVersion": "kube-test.example/v1", "kind": "Widget", "metadata": {"name": f"w{number}"}}
        while True:
            try:
                await client.create(widgets, body, namespace)
            except NotFound:
                # Established, but the handler of the new path is not in place yet.
                continue
            break
    first = await client.request("GET", widgets.path(namespace), params={"limit": "2"})
    assert first.index(b'"items"') < first.index(b'"continue"')
    outline = list_outline(first)
    assert outline is not None
    assert (outline.kind, outline.continue_token) == (
        "WidgetList",
        json.loads(first)["metadata"]["continue"],
    )
    pages = [page async for page in client.list_pages(widgets, namespace, limit=2)]
    assert [[item.name for item in page.items] for page in pages] == [["w0", "w1"], ["w2", "w3"], ["w4"]]
    assert {(item.kind, item.api_version) for page in pages for item in page.items} == {
        ("Widget", "kube-test.example/v1")
    }


async def test_a_watch_sees_what_comes_after_a_list(client: KubeClient, namespace: str) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    _, version = await client.list_with_version(CONFIGMAPS, namespace)
    big = "x" * 900_000
    await client.create(CONFIGMAPS, configmap("b", k=big), namespace)
    await client.patch(CONFIGMAPS, "b", {"data": {"k": "small"}}, namespace)
    await client.delete(CONFIGMAPS, "b", namespace)
    seen = []
    events = client.watch(CONFIGMAPS, namespace, resource_version=version, label_selector="n=b")
    async with asyncio.timeout(PATIENCE_SECONDS), aclosing(events):
        async for event in events:
            if event.type == "BOOKMARK":
                continue
            seen.append((event.type, len(event.object["data"]["k"])))
            if event.type == "DELETED":
                break
    assert seen == [("ADDED", 900_000), ("MODIFIED", 5), ("DELETED", 5)]


async def test_a_watch_ends_when_its_time_is_up(client: KubeClient, namespace: str) -> None:
    _, version = await client.list_with_version(SECRETS, namespace)
    async with asyncio.timeout(PATIENCE_SECONDS):
        events = [
            event.type
            async for event in client.watch(SECRETS, namespace, resource_version=version, timeout_seconds=1)
        ]
    assert set(events) <= {"BOOKMARK"}


@pytest.mark.parametrize("offered", [True, False])
async def test_a_stale_list_continues_or_begins_anew(
    control_plane: ControlPlane, connect: Connect, fault_proxy: StartProxy, namespace: str, offered: bool
) -> None:
    proxy = await fault_proxy(control_plane)
    client = await connect(control_plane, via=proxy)
    names = await fill(client, namespace, 10)
    proxy.rules.add(ExpireContinue(offer_token=offered), path="/configmaps$", skip=1, times=1)
    pages = [
        page
        async for page in client.list_pages(CONFIGMAPS, namespace, limit=3, label_selector="n", prefetch=1)
    ]
    seen = [[item.name for item in page.items] for page in pages]
    assert any(page.restarted for page in pages) is not offered
    if offered:
        assert joined(seen) == names
    else:
        restart = next(number for number, page in enumerate(pages) if page.restarted)
        assert joined(seen[restart:]) == names


async def test_faults_on_the_way_are_survived(
    control_plane: ControlPlane, connect: Connect, fault_proxy: StartProxy, namespace: str
) -> None:
    proxy = await fault_proxy(control_plane)
    client = await connect(control_plane, via=proxy)
    names = await fill(client, namespace, 10)
    lists = "/configmaps$"
    rules = [
        proxy.rules.add(too_many_requests(retry_after_seconds=None), path=lists, times=2),
        proxy.rules.add(CutBody(after_bytes=200), path=lists, skip=1, times=1),
        proxy.rules.add(server_fault(503), path=lists, skip=2, times=1),
    ]
    assert joined(await listed(client, namespace, limit=4)) == names
    assert [rule.hits for rule in rules] == [2, 1, 1]


async def _who_am_i(client: KubeClient) -> dict[str, Any]:
    review = await client.create(
        REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    )
    user: dict[str, Any] = review["status"]["userInfo"]
    return user


async def test_impersonation_has_the_rights_of_the_other_user(
    control_plane: ControlPlane, tmp_path: Path, namespace: str
) -> None:
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    document["users"][0]["user"] |= {
        "as": "jane",
        "as-uid": "u-7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"Acme.com/Project": ["some value"]},
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    async with KubeClient(load_config(str(path))) as client:
        user = await _who_am_i(client)
        with pytest.raises(Forbidden, match='User "jane" cannot list resource "secrets"'):
            await client.list_all(SECRETS, namespace)
    assert (user["username"], user["uid"]) == ("jane", "u-7")
    assert set(user["groups"]) == {"dev", "ops", "system:authenticated"}
    assert user["extra"] == {"acme.com/project": ["some value"]}


async def test_a_service_account_token_authenticates_as_in_a_pod(
    control_plane: ControlPlane, client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, namespace)
    answer = await client.request(
        "POST", SERVICE_ACCOUNTS.path(namespace, "robot", "token"), body=b'{"spec":{"expirationSeconds":600}}'
    )
    (tmp_path / "token").write_text("not.a.token")
    (tmp_path / "ca.crt").write_bytes(control_plane.authority.certificate.read_bytes())
    parts = urlsplit(control_plane.url)
    environ = {"KUBERNETES_SERVICE_HOST": str(parts.hostname), "KUBERNETES_SERVICE_PORT": str(parts.port)}
    async with KubeClient(in_cluster_config(environ=environ, service_account_dir=tmp_path)) as robot:
        with pytest.raises(Unauthorized):
            await _who_am_i(robot)
        (tmp_path / "token").write_text(json.loads(answer)["status"]["token"])
        assert (await _who_am_i(robot))["username"] == f"system:serviceaccount:{namespace}:robot"


async def test_an_exec_plugin_can_give_a_certificate(control_plane: ControlPlane, tmp_path: Path) -> None:
    pair = control_plane.authority.issue_client("exec-user", user="from-exec", groups=("team",))
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {
            "clientCertificateData": pair.certificate.read_text(),
            "clientKeyData": pair.key.read_text(),
        },
    }
    (tmp_path / "answer").write_text(json.dumps(answer))
    plugin = {
        "command": "cat",
        "args": [str(tmp_path / "answer")],
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
    }
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    document["users"][0]["user"] = {"exec": plugin}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    async with KubeClient(load_config(str(path))) as client:
        assert (await _who_am_i(client))["username"] == "from-exec"


async def test_certificates_in_the_kubeconfig_are_used(control_plane: ControlPlane, tmp_path: Path) -> None:
    pair = control_plane.authority.issue_client("data-user", user="from-data")
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    document["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(pair.certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(pair.key.read_bytes()).decode(),
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    async with KubeClient(load_config(str(path))) as client:
        assert (await _who_am_i(client))["username"] == "from-data"


async def test_compressed_answers_are_read(
    control_plane: ControlPlane, namespace: str, client: KubeClient
) -> None:
    names = await fill(client, namespace, 5)
    big = configmap("item-big", k="x" * 300_000)
    await client.create(CONFIGMAPS, big, namespace)
    async with KubeClient(load_config(str(control_plane.kubeconfig)), gzip=True) as packed:
        assert sorted(joined(await listed(packed, namespace))) == sorted([*names, "item-big"])


async def test_odd_names_reach_no_other_path(client: KubeClient) -> None:
    for name in (
        "default/configmaps",
        "default%2fconfigmaps",
        "..",
        "default?watch=1",
        "default#x",
        "default;x",
    ):
        with pytest.raises((NotFound, InvalidName)):
            await client.get(NAMESPACES, name)
