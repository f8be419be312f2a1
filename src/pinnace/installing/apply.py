"""`install --apply`: sets the fields that the flags ask for on existing objects, and leaves all others.

The API server merges (server-side apply) and records the manager of each field. So a later version of
`install` can remove what an earlier one set, while replicas, tolerations, annotations and other fields of
other managers stay. A field of `install` that another manager changed is set again, and reported.
(docs/spec: BEY 10.2)
"""

import re
from typing import Final

import orjson

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict, NotFound
from pinnace.kube.resources import APIResource

APPLY: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
MANAGER: Final = "pinnace-install"
"""The field manager of `install`. Other commands have another: fields that `plugin add` or
`backup-location set` wrote count as the user's."""

_CONFLICT = re.compile(r'conflict with "(?P<manager>[^"]+)"')


async def apply(client: KubeClient, resource: APIResource, obj: JSONObject) -> list[str]:
    """Create the object, or merge it into the existing one.

    Returns:
        The fields that another manager had changed, as texts.

    Raises:
        KubeError: the object was not changed.
    """
    await _adopt(client, resource, obj)
    try:
        await _send(client, resource, obj, force=False)
    except Conflict as error:
        await _send(client, resource, obj, force=True)
        return conflicts(error.status)
    return []


def conflicts(status: JSONObject) -> list[str]:
    """The fields named by a refused apply, each with its manager."""
    found = []
    for cause in (status.get("details") or {}).get("causes") or []:
        manager = _CONFLICT.search(cause.get("message", ""))
        name = manager["manager"] if manager else "another program"
        found.append(f"{cause.get('field', 'a field')}, which {name} had set")
    return found


async def _send(client: KubeClient, resource: APIResource, obj: JSONObject, *, force: bool) -> None:
    metadata = obj["metadata"]
    await client.request(
        "PATCH",
        resource.path(metadata.get("namespace"), metadata["name"]),
        params={"fieldManager": MANAGER, "force": "true" if force else "false"},
        body=orjson.dumps(obj),
        content_type=APPLY,
    )


async def _adopt(client: KubeClient, resource: APIResource, obj: JSONObject) -> None:
    """Take over the fields that an `install` without --apply set, so that later versions can remove them."""
    metadata = obj["metadata"]
    try:
        existing = await client.get(resource, metadata["name"], metadata.get("namespace"))
    except NotFound:
        return
    patch = adoption(existing["metadata"])
    if patch:
        path = resource.path(metadata.get("namespace"), metadata["name"])
        await client.request("PATCH", path, body=orjson.dumps(patch), content_type=JSON_PATCH)


def adoption(metadata: JSONObject) -> list[JSONObject]:
    """The JSON patch that turns created fields of `install` into applied ones; empty if there are none."""
    entries = metadata.get("managedFields") or []
    if any(entry["manager"] == MANAGER and entry["operation"] == "Apply" for entry in entries):
        return []
    for index, entry in enumerate(entries):
        made = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        if made == (MANAGER, "Update", ""):
            return [
                {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
                {"op": "replace", "path": f"/metadata/managedFields/{index}/operation", "value": "Apply"},
            ]
    return []
