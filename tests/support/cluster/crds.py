"""Our custom resources on a test's API server."""

import contextlib

from pinnace.api.definitions.crds import crd_manifests
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, velero
from pinnace.nonadmin import manifests
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from tests.support.waiting import eventually


async def ensure_crds(client: KubeClient) -> None:
    """Return when every kind of velero.io/v1 is served; one cheap request when that is so already."""
    manifests = {manifest["metadata"]["name"]: manifest for manifest in crd_manifests()}
    missing = manifests.keys() - await _established(client)
    if not missing:
        return
    for name in sorted(missing):
        with contextlib.suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, manifests[name])

    async def served() -> bool:
        if not missing <= await _established(client):
            return False
        try:
            # For a moment the server answers 404 for what it calls established.
            for name in missing:
                await client.list_all(velero(name.split(".")[0]), "default")
        except NotFound:
            return False
        return True

    await eventually(served)


async def ensure_nonadmin_crds(client: KubeClient) -> None:
    """Return when the kinds of self-service are served."""
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

    await eventually(served)


async def _established(client: KubeClient) -> set[str]:
    return {
        crd["metadata"]["name"]
        for crd in await client.list_all(CUSTOM_RESOURCE_DEFINITIONS)
        for condition in crd.get("status", {}).get("conditions") or []
        if (condition["type"], condition["status"]) == ("Established", "True")
    }
