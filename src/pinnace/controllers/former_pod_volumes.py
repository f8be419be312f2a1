"""Takes Velero's finalizer off PodVolumeBackups and PodVolumeRestores.

Node agents of Velero 1.17 and later put it on an object before they work on it, and take it off when the work
has ended. An object that such an agent left behind would otherwise stay when its backup or restore is
deleted, and so would the namespace of the server. (docs/spec: BEY 6.4)
"""

from typing import Final

from pinnace.api.objects import JSONObject, listed
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import APIStatusError, Conflict, NotFound
from pinnace.kube.resources import POD_VOLUME_BACKUPS, POD_VOLUME_RESTORES, APIResource
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

FINALIZER: Final = "velero.io/pod-volume-finalizer"

_ATTEMPTS: Final = 5


async def release_former_pod_volumes(scope: Scope) -> None:
    """Take the finalizer off all objects of the namespace. A refusal is logged, and the server starts.

    Only while no agent of Velero can be working.
    """
    for resource in (POD_VOLUME_BACKUPS, POD_VOLUME_RESTORES):
        try:
            found = await scope.client.list_all(resource, scope.namespace)
        except APIStatusError as error:
            log.warning(f"Cannot look for Velero's finalizer on {resource.kind}s", error=error)
            continue
        for obj in found:
            if FINALIZER in listed(obj, "metadata", "finalizers"):
                await _release(scope, resource, obj)


async def _release(scope: Scope, resource: APIResource, obj: JSONObject) -> None:
    key = Key.of(obj)
    try:
        for _ in range(_ATTEMPTS):
            try:
                await scope.client.patch(resource, key.name, _without_finalizer(obj), key.namespace)
            except Conflict:
                # An agent of ours may be failing the object at this moment.
                obj = await scope.client.get(resource, key.name, key.namespace)
            else:
                log.info(f"Took Velero's finalizer off a {resource.kind}", key=str(key))
                return
        log.warning(f"Cannot take Velero's finalizer off a {resource.kind}: it changes", key=str(key))
    except NotFound:
        return
    except APIStatusError as error:
        log.warning(f"Cannot take Velero's finalizer off a {resource.kind}", key=str(key), error=error)


def _without_finalizer(obj: JSONObject) -> JSONObject:
    """The patch of the version that was read: a finalizer that is added meanwhile must not be lost."""
    kept = [name for name in listed(obj, "metadata", "finalizers") if name != FINALIZER]
    return {"metadata": {"finalizers": kept, "resourceVersion": obj["metadata"]["resourceVersion"]}}
