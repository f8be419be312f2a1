"""Writes of controllers: merge patches of the difference, claims that only one server can win.

(docs/spec: CTL 1.2)
"""

from typing import Any, Final

import msgspec

from pinnace.api.codec import encode, merge_patch
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import APIResource
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)


Run = Backup | Restore

NO_ACTIVITY: Final[JSONObject] = {"activity": None}
"""In the patch of a status: a run that has ended does nothing any more."""


def claim_patch(before: Run, after: Run) -> JSONObject:
    """The patch of an object to its first phase. It meets a Conflict if the object has changed since."""
    patch = difference(before, after)
    patch.setdefault("metadata", {})["resourceVersion"] = before.metadata.resource_version
    return patch


def end_patch(before: Run, after: Run) -> JSONObject:
    """The patch of a run to its terminal state. (docs/spec: RST 2)"""
    patch = difference(before, after)
    # Not in the difference: it is written beside the run.
    patch["status"] = {**patch.get("status", {}), **NO_ACTIVITY}
    # With its uid, the patch cannot hit an object that took the name meanwhile.
    patch["metadata"] = {**patch.get("metadata", {}), "uid": before.metadata.uid}
    return patch


def difference(before: Run, after: Run) -> dict[str, Any]:
    """The merge patch from one state of an object to another; fields we do not know stay as they are."""
    return merge_patch(encode(before), encode(after))


async def patch_progress(
    client: KubeClient, resource: APIResource, run: Run, status: JSONObject
) -> JSONObject:
    """Patch these parts of the status of a run that is in progress; return the object as stored."""
    patch = {"metadata": {"uid": run.metadata.uid}, "status": status}
    return await client.patch(resource, run.metadata.name, patch, run.metadata.namespace)


async def patch_status(scope: Scope, resource: APIResource, key: Key, status: JSONObject) -> JSONObject:
    """Patch the status of a BackupStorageLocation, DownloadRequest or ServerStatusRequest.

    Our definitions and those of early Velero versions give these kinds a status subresource; those of 1.18 do
    not. Which of them the cluster serves can change while a server runs. (docs/spec: CTL 1.2, BEY 11.6)

    Returns:
        The object as it is stored now.

    Raises:
        NotFound: the object is gone.
    """
    client, patch = scope.client, {"status": status}
    if resource in scope.without_status:
        stored = await client.patch(resource, key.name, patch, key.namespace)
        if holds(stored.get("status"), status):
            return stored
        # A definition with the subresource has been installed: it ignores what other requests say of status.
        scope.without_status.discard(resource)
    try:
        return await client.patch(resource, key.name, patch, key.namespace, subresource="status")
    except NotFound:
        # The API server gives the same answer for a missing object and for a missing subresource.
        if await _has_status_subresource(client, resource):
            raise
    stored = await client.patch(resource, key.name, patch, key.namespace)
    scope.without_status.add(resource)
    return stored


def holds(stored: Any, wanted: JSONObject) -> bool:
    """Whether a stored member is what a merge patch made of it; null stands for a member that is absent."""
    found = stored if isinstance(stored, dict) else {}
    return all(found.get(name) == value for name, value in wanted.items())


async def _has_status_subresource(client: KubeClient, resource: APIResource) -> bool:
    listed = msgspec.json.decode(await client.request("GET", f"/apis/{resource.group}/{resource.version}"))
    return any(served.get("name") == f"{resource.name}/status" for served in listed.get("resources") or [])


async def delete_if_there(
    client: KubeClient, resource: APIResource, key: Key, *, uid: str = "", propagation: str | None = None
) -> None:
    """Delete an object; that it is gone already is success. Raises Conflict if it is another one by now."""
    try:
        await client.delete(resource, key.name, key.namespace, uid=uid or None, propagation=propagation)
    except NotFound:
        return
