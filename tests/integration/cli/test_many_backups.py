"""`backup get` with many backups."""

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero
from tests.e2e.without_server.command import Pinnace

COUNT = 1200
CPU_FACTOR = 5.0
"""The CPU time that the list may take, in that of an empty list, most of which is loading the program."""


def body(number: int) -> JSONObject:
    """A backup of a usual size: with filters, hooks and a status."""
    command = ["/bin/sh", "-c", "sync; fsfreeze --freeze /data"]
    hooks = [{"name": f"hook-{i}", "pre": [{"exec": {"command": command}}]} for i in range(5)]
    return {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": f"b-{number:04}", "labels": {"velero.io/storage-location": "default"}},
        "spec": {"includedNamespaces": [f"ns-{i}" for i in range(20)], "hooks": {"resources": hooks}},
        "status": {"phase": "Completed", "startTimestamp": "2021-08-11T21:43:26Z", "warnings": 1},
    }


def cpu_seconds_of_children() -> float:
    """The CPU time of child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.fixture
async def backups(client: KubeClient, namespace: str, velero_crds: None) -> AsyncIterator[None]:
    limit = asyncio.Semaphore(32)

    async def create(number: int) -> None:
        async with limit:
            await client.create(velero("backups"), body(number), namespace)

    async with asyncio.TaskGroup() as group:
        for number in range(COUNT):
            group.create_task(create(number))
    yield
    path = velero("backups").path(namespace)
    await client.request("DELETE", path)


async def test_many_backups_are_listed_quickly(
    command: Pinnace,
    backups: None,
    control_plane: ControlPlane,
    fault_proxy: Callable[..., Awaitable[FaultProxy]],
    tmp_path: Path,
) -> None:
    before = cpu_seconds_of_children()
    # Processes of their own, as the time of forks is no child's.
    empty = await command.start("backup", "get", "-n", "default")
    assert (await empty.finish()).code == 0
    loaded = cpu_seconds_of_children()
    full = await command.start("backup", "get")
    outcome = await full.finish()
    spent = cpu_seconds_of_children() - loaded
    assert (outcome.code, len(outcome.lines)) == (0, COUNT + 1)
    assert spent < CPU_FACTOR * (loaded - before)

    proxy = await fault_proxy(control_plane)
    command.kubeconfig = control_plane.write_kubeconfig(tmp_path / "through-proxy", server=proxy.url)
    names = await command("backup", "get", "-o", "name")
    assert names.lines == [f"backup.velero.io/b-{number:04}" for number in range(COUNT)]
    lists = [exchange for exchange in proxy.exchanges if exchange.head.path.endswith("/backups")]
    assert [exchange.head.query["limit"] for exchange in lists] == ["500"] * 3
