"""The API server goes away in the middle of a run and comes back: nothing may be lost.

With only 5 attempts for each request, outages of 3 to 45 s lost 96 to 670 objects of a restore.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.lists.pages import Page
from pinnace.kube.resources import APIResource
from pinnace.storage.backup_store import BackupStore
from tests.integration.faults.world import Lab, objects_in, results_of

CROWD = 300
FROZEN_SECONDS = 4.0

Outage = Callable[[ControlPlane], Awaitable[None]]


async def killed(control_plane: ControlPlane) -> None:
    """Connections are reset, then refused; restarted, the server refuses what it does not know yet."""
    await asyncio.to_thread(control_plane.stop_process, "kube-apiserver", grace_seconds=0)
    await asyncio.to_thread(control_plane.start)


async def frozen(control_plane: ControlPlane) -> None:
    """Connections are accepted and nothing is answered."""
    pid = control_plane.processes["kube-apiserver"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(FROZEN_SECONDS)  # the length of the outage is what is tested
    finally:
        os.kill(pid, signal.SIGCONT)


class Watched(KubeClient):
    """Sets an event when a run is in the middle: a number of creates were sent, or pages read."""

    MIDDLE = 60

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.steps = 0
        self.in_the_middle = asyncio.Event()

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.MIDDLE:
            self.in_the_middle.set()

    async def create_bytes(
        self, resource: APIResource, body: bytes, namespace: str | None = None, *, field_manager: str = ""
    ) -> bytes:
        self._step()
        return await super().create_bytes(resource, body, namespace, field_manager=field_manager)

    async def list_pages(
        self, resource: APIResource, *args: Any, **options: Any
    ) -> AsyncGenerator[Page, None]:
        async with aclosing(super().list_pages(resource, *args, **{**options, "limit": 3})) as pages:
            async for page in pages:
                self._step()
                yield page


@asynccontextmanager
async def struck(client: Watched, control_plane: ControlPlane, outage: Outage) -> AsyncIterator[None]:
    """Begin the outage in the middle of the run in the context; it has ended when the context is left."""

    async def strike() -> None:
        await client.in_the_middle.wait()
        await outage(control_plane)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(strike())
        yield


@pytest.fixture
async def watched(control_plane: ControlPlane) -> AsyncIterator[Watched]:
    async with Watched(load_config(str(control_plane.kubeconfig))) as client:
        yield client


@pytest.mark.parametrize("outage", [killed, frozen])
async def test_a_restore_waits_out_an_outage(
    lab: Lab, store: BackupStore, control_plane: ControlPlane, watched: Watched, crowd: str, outage: Outage
) -> None:
    await lab.back_up(store, included_namespaces=[crowd])
    target = lab.new_target()
    async with struck(watched, control_plane, outage):
        done = await lab.restore(store, target, client=watched, source=crowd)

    assert await results_of(store) == {"errors": {}, "warnings": {}}
    assert (done.status.phase, done.status.errors) == (RestorePhase.COMPLETED, 0)
    assert await objects_in(lab.client, target) == await objects_in(lab.client, crowd)


@pytest.mark.parametrize("outage", [killed, frozen])
async def test_a_backup_waits_out_an_outage(
    lab: Lab, store: BackupStore, control_plane: ControlPlane, watched: Watched, crowd: str, outage: Outage
) -> None:
    async with struck(watched, control_plane, outage):
        done = await lab.back_up(store, client=watched, included_namespaces=[crowd])

    assert (done.status.phase, done.status.errors) == (BackupPhase.COMPLETED, 0)
    target = lab.new_target()
    await lab.restore(store, target, source=crowd)
    assert await objects_in(lab.client, target) == await objects_in(lab.client, crowd)
