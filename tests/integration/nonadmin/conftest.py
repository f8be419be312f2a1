"""Self-service on a real API server: its own service account, and tenants with rights in one namespace."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import AlreadyExists, Forbidden, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, APIResource, velero
from pinnace.nonadmin import manifests
from pinnace.nonadmin.assembly import add_nonadmin
from pinnace.nonadmin.controllers.parts import NonAdminOptions
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.nonadmin.settings_source import SettingsFlags
from pinnace.runtime.manager import Manager, ManagerPhase
from tests.support.waiting import eventually

BACKUPS, RESTORES = velero("backups"), velero("restores")
LOCATIONS, DELETE_REQUESTS = velero("backupstoragelocations"), velero("deletebackuprequests")
DOWNLOADS = velero("downloadrequests")


class Tenant:
    """Somebody with the role `edit` in one namespace, and nothing else."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def create(
        self, resource: APIResource, name: str, spec: JSONObject | None = None, **metadata: Any
    ) -> JSONObject:
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
        }
        if spec is not None:
            body["spec"] = spec
        return await self.client.create(resource, body, self.namespace)

    async def back_up(self, name: str, *, metadata: JSONObject | None = None, **spec: Any) -> JSONObject:
        return await self.create(NON_ADMIN_BACKUPS, name, {"backupSpec": spec}, **(metadata or {}))

    async def restore(self, name: str, **spec: Any) -> JSONObject:
        return await self.create(NON_ADMIN_RESTORES, name, {"restoreSpec": spec})

    async def get(self, resource: APIResource, name: str) -> JSONObject:
        return await self.client.get(resource, name, self.namespace)

    async def reached(self, resource: APIResource, name: str, phase: str) -> JSONObject:
        """The request, once it has that phase."""
        return await self.until(resource, name, lambda obj: (obj.get("status") or {}).get("phase") == phase)

    async def until(
        self, resource: APIResource, name: str, holds: Callable[[JSONObject], bool]
    ) -> JSONObject:
        found: JSONObject = {}

        async def check() -> bool:
            found.clear()
            with contextlib.suppress(NotFound):
                found.update(await self.get(resource, name))
            return bool(found) and holds(found)

        try:
            await eventually(check)
        except AssertionError as error:
            raise AssertionError(f"{error}: {found.get('status')}") from None
        return found

    async def gone(self, resource: APIResource, name: str) -> None:
        async def check() -> bool:
            try:
                await self.get(resource, name)
            except NotFound:
                return True
            return False

        await eventually(check)

    async def refused(self, resource: APIResource, name: str) -> str:
        """Why a request was refused: the message of its condition."""
        found = await self.reached(resource, name, "BackingOff")
        return str(
            next(each["message"] for each in found["status"]["conditions"] if each["status"] == "False")
        )


class Server:
    """The namespace of the server, as its administrator sees it; no backup server runs in it."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def all(self, resource: APIResource) -> list[JSONObject]:
        return await self.client.list_all(resource, self.namespace)

    async def set_status(self, resource: APIResource, name: str, **status: Any) -> None:
        subresource = "status" if resource in (LOCATIONS, DOWNLOADS) else None
        await self.client.patch(resource, name, {"status": status}, self.namespace, subresource=subresource)

    async def add(self, resource: APIResource, name: str, **members: Any) -> JSONObject:
        metadata = {"name": name, "namespace": self.namespace, **members.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **members}
        return await self.client.create(resource, body, self.namespace)


class NewTenant(Protocol):
    """The `new_tenant` fixture."""

    async def __call__(self) -> Tenant: ...


class Serve(Protocol):
    """The `serve` fixture."""

    async def __call__(self, **flags: Any) -> Manager: ...


async def create_object(client: KubeClient, obj: JSONObject) -> None:
    """Create an object of a kind of which the tests know the plural, unless it is there."""
    group, _, version = obj["apiVersion"].rpartition("/")
    plural = {"RoleBinding": "rolebindings", "ClusterRoleBinding": "clusterrolebindings"}.get(
        obj["kind"], f"{obj['kind'].lower()}s"
    )
    namespace = obj["metadata"].get("namespace")
    resource = APIResource(
        group=group, version=version, name=plural, kind=obj["kind"], namespaced=namespace is not None
    )
    with contextlib.suppress(AlreadyExists):
        await client.create(resource, obj, namespace)


@pytest.fixture
async def nonadmin_crds(client: KubeClient, velero_crds: None) -> None:
    """The self-service kinds and the tenants' roles are there; they stay for the tests to come."""
    for crd in manifests.crds():
        with contextlib.suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd)

    async def served() -> bool:
        try:
            for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS, NON_ADMIN_DOWNLOADS):
                await client.list_all(resource)
        except NotFound:
            return False
        return True

    await eventually(served, timeout_seconds=60)


@pytest.fixture
async def server(client: KubeClient, namespace: str, nonadmin_crds: None) -> Server:
    """The server's namespace with everything that `install` makes for self-service."""
    for obj in manifests.resources(namespace):
        await create_object(client, obj)
    return Server(client, namespace)


@asynccontextmanager
async def signed_in(plane: ControlPlane, folder: Path, user: str) -> AsyncIterator[KubeClient]:
    """A client with a certificate of the cluster's authority, and no right but what is bound to that name."""
    kubeconfig = user_kubeconfig(plane, folder, user)
    async with KubeClient(load_config(str(kubeconfig))) as client:
        yield client


def user_kubeconfig(plane: ControlPlane, folder: Path, user: str) -> Path:
    """A kubeconfig with nothing in it but that user's certificate."""
    name = f"user-{secrets.token_hex(4)}"
    pair = plane.authority.issue_client(name, user=user)
    return plane.write_kubeconfig(folder / f"{name}.kubeconfig", server=plane.url, client=pair)


@pytest.fixture
async def new_tenant(
    control_plane: ControlPlane, client: KubeClient, server: Server, tmp_path: Path
) -> AsyncIterator[NewTenant]:
    """A function that makes a namespace and somebody with the role `edit` in it."""
    async with AsyncExitStack() as stack:

        async def make() -> Tenant:
            name = f"tenant-{secrets.token_hex(4)}"
            await client.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
            stack.push_async_callback(_remove_tenant, client, name)
            await create_object(client, edit_binding(name, f"user-of-{name}"))
            own = await stack.enter_async_context(signed_in(control_plane, tmp_path, f"user-of-{name}"))
            await eventually(lambda: may_work(own, name))
            return Tenant(own, name)

        yield make


async def _remove_tenant(client: KubeClient, namespace: str) -> None:
    """No request may outlive its test: the next one's controllers see all namespaces."""
    await client.delete(NAMESPACES, namespace)
    for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS, NON_ADMIN_DOWNLOADS):
        for obj in await client.list_all(resource, namespace):
            name = obj["metadata"]["name"]
            with contextlib.suppress(NotFound):
                await client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
                await client.delete(resource, name, namespace)


def edit_binding(namespace: str, user: str) -> JSONObject:
    """The role `edit` in a namespace, for a user."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "works-here", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }


async def may_work(client: KubeClient, namespace: str) -> bool:
    """Whether the aggregated role has reached the authorizer."""
    try:
        for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS, NON_ADMIN_DOWNLOADS):
            await client.list_all(resource, namespace)
    except Forbidden:
        return False
    return True


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
