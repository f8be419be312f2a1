"""Changes of a cluster that a running server notices, and its profiles for operators."""

import asyncio
import re
import secrets
import tarfile
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource, velero
from tests.support.servers.homes import ALONE, Home, NewServer
from tests.support.waiting import eventually


async def served(client: KubeClient, resource: APIResource, namespace: str) -> bool:
    try:
        await client.list_all(resource, namespace)
    except NotFound:
        return False
    return True


@pytest.fixture
async def widgets(client: KubeClient, namespace: str) -> AsyncIterator[APIResource]:
    """A kind that the cluster does not have yet; its definition is removed at the end."""
    group = f"g{secrets.token_hex(4)}.example.com"
    resource = APIResource(group=group, version="v1", name="widgets", kind="Widget", namespaced=True)
    yield resource
    try:
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, f"widgets.{group}")
    except NotFound:
        return


def definition(resource: APIResource) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{resource.group}"},
        "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def test_a_kind_that_is_new_is_in_the_next_backup(
    home: Home, new_server: NewServer, client: KubeClient, widgets: APIResource
) -> None:
    async def contents(name: str) -> list[str]:
        spec = {"includedNamespaces": [home.namespace]}
        body = {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name}, "spec": spec}
        await client.create(velero("backups"), body, home.namespace)
        assert (await home.ended("backups", name))["phase"] == "Completed"
        with tarfile.open(home.location / "backups" / name / f"{name}.tar.gz") as tar:
            return [path for path in tar.getnames() if widgets.group in path]

    server = await new_server(ALONE)
    await server.ready()
    assert await contents("before") == []

    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(widgets))

    async def established() -> bool:
        return await served(client, widgets, home.namespace)

    await eventually(established)
    body = {"apiVersion": f"{widgets.group}/v1", "kind": "Widget", "metadata": {"name": "w1"}}
    await client.create(widgets, body, home.namespace)
    path = f"resources/widgets.{widgets.group}/namespaces/{home.namespace}/w1.json"
    assert path in await contents("after")

    # A kind that is gone is no error.
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, f"widgets.{widgets.group}")

    async def gone() -> bool:
        return not await established()

    await eventually(gone)
    assert await contents("at-last") == []


async def test_profiles_of_a_running_server(home: Home, new_server: NewServer) -> None:
    pytest.importorskip("pyinstrument")
    server = await new_server(ALONE, "--profiler-address", ":0")
    await server.said("Serving profiles")
    found = re.search(r'Serving profiles.* address="(127\.0\.0\.1:\d+)"', server.log)
    assert found, server.log
    await server.ready()
    await home.create_backup("b1")
    async with aiohttp.ClientSession() as session:
        for page, text in (("profile?seconds=0.5", "_run_once"), ("heap?seconds=0.1", "Peak of the process")):
            async with session.get(f"http://{found[1]}/debug/pprof/{page}") as response:
                assert (response.status, text in await response.text()) == (200, True)
    assert (await home.ended("backups", "b1"))["phase"] == "Completed"
    assert await server.stop() == 0


async def test_a_profile_in_progress_does_not_delay_a_stop(home: Home, new_server: NewServer) -> None:
    server = await new_server(ALONE, "--profiler-address", "localhost:0")
    await server.ready()
    found = re.search(r'Serving profiles.* address="(\S+)"', server.log)
    assert found, server.log
    url = f"http://{found[1]}/debug/pprof/heap"

    async with aiohttp.ClientSession() as session:

        async def refused(seconds: float) -> bool:
            async with session.get(f"{url}?seconds={seconds}") as response:
                await response.read()
                return response.status == 409

        async def look_for_long() -> None:
            while await refused(250):
                pass  # a short look was quicker

        look = asyncio.create_task(look_for_long())
        await eventually(lambda: refused(0))
        assert await server.stop() == 0
        with pytest.raises(aiohttp.ClientError):
            await look
