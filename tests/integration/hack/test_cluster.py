"""The development cluster, on which the other tests rely."""

import json
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta

import obstore
import pytest
from obstore.store import S3Store

from hack.cluster.control_plane import ControlPlane
from hack.cluster.errors import ClusterError
from hack.cluster.faults import DropResponse, ExpireContinue, too_many_requests
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Gone, NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, SERVICES, velero
from tests.support.cluster.connect import Connect
from tests.support.cluster.crds import ensure_crds
from tests.support.cluster.namespaces import erase_namespace
from tests.support.waiting import eventually

StartProxy = Callable[[ControlPlane | S3Server], Awaitable[FaultProxy]]


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def list_names(client: KubeClient, namespace: str, **params: str) -> tuple[list[str], str]:
    """Read one page; return its names and the continue token."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    page = json.loads(await client.request("GET", path, params=params))
    return [item["metadata"]["name"] for item in page["items"]], page["metadata"].get("continue", "")


async def test_server_reports_the_pinned_version(client: KubeClient) -> None:
    version = await client.version()

    assert version.git_version.startswith("v1.")
    assert (version.major, version.minor) != ("0", "0")


async def test_the_controllers_of_the_cluster_work(client: KubeClient, namespace: str) -> None:
    """A deleted namespace goes away with its objects."""
    await client.create(CONFIGMAPS, config_map("one"), namespace)
    doomed = f"{namespace}-doomed"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": doomed}})
    await client.create(CONFIGMAPS, config_map("two"), doomed)
    await client.delete(NAMESPACES, doomed)

    async def gone() -> bool:
        return not await _exists(client, doomed)

    await eventually(gone)

    assert (await client.get(CONFIGMAPS, "one", namespace))["metadata"]["name"] == "one"


async def test_an_erased_namespace_leaves_nothing_and_is_seen_by_watches(
    control_plane: ControlPlane, client: KubeClient
) -> None:
    name = f"test-{secrets.token_hex(4)}"
    kept = f"{name}-kept"
    held = config_map("one") | {"metadata": {"name": "one", "finalizers": ["example.com/held"]}}
    for each in (name, kept):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}})
        await client.create(CONFIGMAPS, held, each)
        spec = {"type": "NodePort", "ports": [{"port": 80}]}
        metadata = {"name": "service"}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        service = await client.create(SERVICES, body, each)
    erased = await client.get(SERVICES, "service", name)
    version = service["metadata"]["resourceVersion"]

    await erase_namespace(control_plane, client, name)

    async for event in client.watch(CONFIGMAPS, name, resource_version=version, timeout_seconds=60):
        if event.object["metadata"]["name"] == "one":
            assert event.type == "DELETED"
            break
    assert not await _exists(client, name)
    for resource in (CONFIGMAPS, SECRETS, SERVICES, SERVICE_ACCOUNTS):
        assert await client.list_all(resource, name) == []
    assert (await client.get(CONFIGMAPS, "one", kept))["metadata"]["finalizers"]
    port = erased["spec"]["ports"][0]["nodePort"]  # which is free at once
    spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"}, "spec": spec}
    await client.create(SERVICES, body, kept)
    await erase_namespace(control_plane, client, kept)
    await erase_namespace(control_plane, client, kept)  # a second time is harmless


async def _exists(client: KubeClient, namespace: str) -> bool:
    try:
        await client.get(NAMESPACES, namespace)
    except NotFound:
        return False
    return True


@pytest.mark.usefixtures("velero_crds")
async def test_our_resources_are_served(client: KubeClient, namespace: str) -> None:
    assert await client.list_all(velero("backups"), namespace) == []
    await ensure_crds(client)  # a second time is harmless


async def test_two_clusters_share_nothing(
    client: KubeClient, second_client: KubeClient, namespace: str
) -> None:
    assert await _exists(client, namespace)
    assert not await _exists(second_client, namespace)


async def test_real_server_takes_the_offered_continue_token(
    control_plane: ControlPlane,
    connect: Connect,
    fault_proxy: StartProxy,
    namespace: str,
    client: KubeClient,
) -> None:
    for name in "abcd":
        await client.create(CONFIGMAPS, config_map(name), namespace)
    proxy = await fault_proxy(control_plane)
    proxied = await connect(control_plane, via=proxy)
    proxy.rules.add(ExpireContinue(offer_token=True), times=1)

    names, token = await list_names(proxied, namespace, limit="2")
    with pytest.raises(Gone, match="too old to display") as caught:
        await list_names(proxied, namespace, limit="2", **{"continue": token})
    offered = caught.value.status["metadata"]["continue"]
    rest, _ = await list_names(proxied, namespace, limit="9", **{"continue": offered})

    assert names == ["a", "b"]
    assert rest[:2] == ["c", "d"]  # then the cluster's certificate, unless that is not there yet


async def test_dropped_response_of_a_create_has_created(
    control_plane: ControlPlane,
    connect: Connect,
    fault_proxy: StartProxy,
    namespace: str,
    client: KubeClient,
) -> None:
    proxy = await fault_proxy(control_plane)
    proxied = await connect(control_plane, via=proxy)
    rule = proxy.rules.add(DropResponse(), method="POST", times=1)

    made = await proxied.create(CONFIGMAPS, config_map("made"), namespace)

    assert rule.hits == 1
    assert made == await client.get(CONFIGMAPS, "made", namespace)


def object_store(server: S3Server, bucket: str, *, endpoint: str = "") -> S3Store:
    trust = {"root_certificate": server.ca_file.read_bytes()} if server.ca_file else {"allow_http": True}
    return S3Store(
        bucket,
        endpoint=endpoint or server.url,
        region=server.region,
        access_key_id=server.credentials.access_key_id,
        secret_access_key=server.credentials.secret_access_key,
        client_options=trust,  # type: ignore[arg-type]  # a TypedDict, built from two halves
    )


async def test_store_by_https_keeps_its_objects_over_a_restart(s3_tls: S3Server) -> None:
    store = object_store(s3_tls, s3_tls.create_bucket("kept").name)
    await obstore.put_async(store, "backups/a/contents", b"x" * 100_000)

    s3_tls.stop()
    s3_tls.start()

    listing = await obstore.list_with_delimiter_async(store, "backups/")
    assert listing["common_prefixes"] == ["backups/a"]
    assert (await obstore.head_async(store, "backups/a/contents"))["size"] == 100_000


async def test_signed_requests_pass_the_proxy(bucket: Bucket, fault_proxy: StartProxy) -> None:
    proxy = await fault_proxy(bucket.server)
    rule = proxy.rules.add(too_many_requests(), method="GET", times=1)
    store = object_store(bucket.server, bucket.name, endpoint=proxy.url)

    await obstore.put_async(store, "key with space/+%", b"content")
    answer = await obstore.get_async(store, "key with space/+%")

    assert bytes(await answer.bytes_async()) == b"content"
    assert rule.hits == 1, "the store client tried again"
    assert proxy.url in obstore.sign(store, "GET", "key", timedelta(minutes=1))


def test_bucket_that_exists_is_refused_by_the_server(bucket: Bucket) -> None:
    with pytest.raises(ClusterError, match=r"409[^$]*BucketAlready"):
        bucket.server.create_bucket(bucket.name)
