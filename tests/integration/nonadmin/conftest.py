"""Self-service on a real API server: its own service account, and tenants with rights in one namespace."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.values.durations import Duration
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES
from pinnace.nonadmin import manifests
from pinnace.nonadmin.assembly import add_nonadmin
from pinnace.nonadmin.controllers.parts import NonAdminOptions
from pinnace.nonadmin.settings.source import SettingsFlags
from pinnace.runtime.manager import Manager, ManagerPhase
from tests.support.cluster.crds import ensure_nonadmin_crds
from tests.support.cluster.namespaces import erase_namespace
from tests.support.servers.self_service import (
    NewTenant,
    Serve,
    Server,
    Tenant,
    create_object,
    edit_binding,
    may_work,
    signed_in,
)
from tests.support.waiting import eventually


@pytest.fixture
async def nonadmin_crds(client: KubeClient, velero_crds: None) -> None:
    """Install the self-service kinds and the tenants' roles; they stay for later tests."""
    await ensure_nonadmin_crds(client)


@pytest.fixture
async def server(client: KubeClient, namespace: str, nonadmin_crds: None) -> Server:
    """The server's namespace with everything that `install` makes for self-service."""
    for obj in manifests.resources(namespace):
        await create_object(client, obj)
    return Server(client, namespace)


@pytest.fixture
async def new_tenant(
    control_plane: ControlPlane, client: KubeClient, server: Server, tmp_path: Path
) -> AsyncIterator[NewTenant]:
    """A function that makes a namespace and a user with the role `edit` in it."""
    async with AsyncExitStack() as stack:

        async def make() -> Tenant:
            name = f"tenant-{secrets.token_hex(4)}"
            await client.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
            # No request may outlive its test: the next one's controllers see all namespaces.
            stack.push_async_callback(erase_namespace, control_plane, client, name)
            await create_object(client, edit_binding(name, f"user-of-{name}"))
            own = await stack.enter_async_context(signed_in(control_plane, tmp_path, f"user-of-{name}"))
            await eventually(lambda: may_work(own, name))
            return Tenant(own, name)

        yield make


@pytest.fixture
async def tenant(new_tenant: NewTenant) -> Tenant:
    """One tenant."""
    return await new_tenant()


@pytest.fixture
async def serve(control_plane: ControlPlane, server: Server, tmp_path: Path) -> AsyncIterator[Serve]:
    """A function that starts self-service under its own service account, until the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(**flags: Any) -> Manager:
            return await stack.enter_async_context(running(control_plane, server, tmp_path, **flags))

        yield start


@asynccontextmanager
async def running(plane: ControlPlane, server: Server, folder: Path, **flags: Any) -> AsyncIterator[Manager]:
    """Self-service that has started, with no rights but those of the manifests; stopped at the end."""
    user = f"system:serviceaccount:{server.namespace}:{manifests.NAME}"
    options = flags.pop("options", {})
    given: dict[str, Any] = {
        "collection_period": Duration(),
        "sync_period": Duration(),
        "allowed_endpoints": ("127.0.0.0/8",),  # where the tests' S3 server is
        **flags,
    }
    async with signed_in(plane, folder, user) as client:
        manager, stop = Manager(), asyncio.Event()
        add_nonadmin(
            manager,
            client,
            NonAdminOptions(namespace=server.namespace, settings=SettingsFlags(**given), **options),
        )
        task = asyncio.create_task(manager.run(stop))
        try:
            await eventually(lambda: _started(task, manager))
            if task.done():
                task.result()
            yield manager
        finally:
            stop.set()
            await task


async def _started(task: asyncio.Task[None], manager: Manager) -> bool:
    return task.done() or manager.phase is ManagerPhase.RUNNING
