"""Takes Velero's finalizer off PodVolumeBackups and PodVolumeRestores.

Node agents of Velero 1.17 and later put it on an object before they work on it, and take it off when the work
has ended. An object that such an agent left behind would otherwise stay when its backup or restore is
deleted, and so would the namespace of the server. (docs/spec: BEY 6.4)
"""

from typing import Final

from pinnace.api.objects import JSONObject, listed
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import APIStatusError, NotFound
from pinnace.kube.resources import POD_VOLUME_BACKUPS, POD_VOLUME_RESTORES, APIResource
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

FINALIZER: Final = "velero.io/pod-volume-finalizer"


async def release_former_pod_volumes(scope: Scope) -> None:
    """Take the finalizer off all objects of the namespace. One that cannot be changed is logged.

    Only while no agent of Velero can be working.
    """
    for resource in (POD_VOLUME_BACKUPS, POD_VOLUME_RESTORES):
        for obj in await scope.client.list_all(resource, scope.namespace):
            if FINALIZER in listed(obj, "metadata", "finalizers"):
                await _release(scope, resource, obj)


async def _release(scope: Scope, resource: APIResource, obj: JSONObject) -> None:
    key = Key.of(obj)
    kept = [name for name in listed(obj, "metadata", "finalizers") if name != FINALIZER]
    try:
        await scope.client.patch(resource, key.name, {"metadata": {"finalizers": kept}}, key.namespace)
    except NotFound:
        return
    except APIStatusError as error:
        log.warning(f"Cannot take Velero's finalizer off a {resource.kind}", key=str(key), error=error)
    else:
        log.info(f"Took Velero's finalizer off a {resource.kind}", key=str(key))
