"""A server with self-service on a real API server, and tenants with rights of their own."""

import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from hack.cluster.control_plane import ControlPlane
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import AlreadyExists, Forbidden, NotFound
from pinnace.kube.resources import NAMESPACES, SECRETS, APIResource, velero
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.runtime.manager import Manager
from tests.support.waiting import eventually

BACKUPS, RESTORES = velero("backups"), velero("restores")


LOCATIONS, DELETE_REQUESTS = velero("backupstoragelocations"), velero("deletebackuprequests")


DOWNLOADS = velero("downloadrequests")


class Tenant:
    """A user with the role `edit` in one namespace, and no other right."""

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
    """Create an object of a kind whose plural the tests know, unless it is there."""
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


FINISHED = {"phase": "Completed", "completionTimestamp": "2030-01-01T00:00:00Z"}


SYNCED_FROM = "openshift.io/oadp-nab-synced-from-nacuuid"


KEYS = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"


async def uid_of(server: Server, tenant: Tenant) -> str:
    return str((await server.client.get(NAMESPACES, tenant.namespace))["metadata"]["uid"])


async def nothing_made(server: Server) -> None:
    for resource in (BACKUPS, RESTORES, DELETE_REQUESTS, DOWNLOADS, LOCATIONS, NON_ADMIN_LOCATION_REQUESTS):
        assert await server.all(resource) == [], resource.name


async def secret(tenant: Tenant, name: str = "keys", text: str = KEYS) -> None:
    await tenant.create(SECRETS, name, None)
    await tenant.client.patch(SECRETS, name, {"stringData": {"cloud": text}}, tenant.namespace)


def location(**changes: Any) -> dict[str, Any]:
    spec = {
        "provider": "aws",
        "config": {"region": "eu"},
        "objectStorage": {"bucket": "mine"},
        "credential": {"name": "keys", "key": "cloud"},
        **changes,
    }
    return {"backupStorageLocationSpec": {name: value for name, value in spec.items() if value is not None}}


async def own_location(server: Server, tenant: Tenant, name: str = "mine") -> str:
    """A location of the tenant that can be used; its name in the server's namespace."""
    await secret(tenant)
    await tenant.create(NON_ADMIN_LOCATIONS, name, location())
    found = await tenant.reached(NON_ADMIN_LOCATIONS, name, "Created")
    made = str(found["status"]["veleroBackupStorageLocation"]["name"])
    await server.set_status(LOCATIONS, made, phase="Available")
    return made
