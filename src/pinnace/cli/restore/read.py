"""Gathers what `restore describe` shows. (docs/spec: CLI 5.3)"""

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.common.describing import Description, View
from pinnace.cli.common.stored_lists import stored_objects, stored_operations
from pinnace.cli.common.unshown import Unshown
from pinnace.cli.common.waiting import waits_for
from pinnace.cli.guard import complain
from pinnace.cli.restore.describe import describe_restore
from pinnace.cli.restore.describe_json import restore_as_json
from pinnace.cli.restore.description import DescribedRestore
from pinnace.cli.restore.objects import RestoredObjects, restored_objects
from pinnace.client.errors import ClientError, FileMissing
from pinnace.client.interface import Backend, fetch_json
from pinnace.kube.errors import KubeError
from pinnace.storage.errors import StorageError


async def describe_stored_restore(backend: Backend, restore: JSONObject, view: View) -> Description:
    """The description of a restore; an error stands in place of its part, or on stderr."""
    facts = await gather(backend, restore, view)
    return restore_as_json(restore, facts) if view.json else describe_restore(restore, facts, view)


async def gather(backend: Backend, restore: JSONObject, view: View) -> DescribedRestore:
    """The objects and files that belong to a restore."""
    name, status = restore["metadata"]["name"], restore.get("status") or {}
    unshown = Unshown(f"restore {name}")
    results: JSONObject | str | None = None
    undecodable = False
    if status.get("warnings") or status.get("errors"):
        try:
            results = await fetch_json(backend, DownloadTargetKind.RESTORE_RESULTS, name, view.downloads)
        except (ClientError, KubeError, StorageError) as error:
            results = "it is encrypted" if unshown.is_sealed("errors and warnings", error) else str(error)
        except ValueError as error:
            results, undecodable = str(error), True
    try:
        selector = f"{labels.RESTORE_NAME}={labels.label_value(name)}"
        volumes = await backend.objects("podvolumerestores", selector)
    except (KubeError, StorageError) as error:
        complain(f"error getting PodVolumeRestores for restore {name}: {error}")
        volumes = []
    described = DescribedRestore(
        results=results,
        undecodable_results=undecodable,
        pod_volume_restores=volumes,
        objects=await _objects(backend, name, view, unshown) if view.details else None,
        volume_infos=(
            view.details
            and await stored_objects(
                backend, DownloadTargetKind.RESTORE_VOLUME_INFO, name, view.downloads, unshown
            )
        )
        or (),
        operations=await stored_operations(
            backend, restore, DownloadTargetKind.RESTORE_ITEM_OPERATIONS, view.downloads, unshown
        )
        if view.details
        else (),
        waits_for=await waits_for(backend, restore),
    )
    unshown.say()
    return described


async def _objects(backend: Backend, name: str, view: View, unshown: Unshown) -> RestoredObjects | str:
    """The outcome of each object. A str is the error of reading it."""
    options = view.downloads
    try:
        found = await fetch_json(backend, DownloadTargetKind.RESTORE_RESOURCE_LIST, name, options)
    except FileMissing:
        return "<restore resource list not found>"
    except (ClientError, KubeError, StorageError) as error:
        return unshown.text("resource list", error, "getting restore resource list")
    except ValueError as error:
        return f"<error reading restore resource list: {error}>"
    details = None
    try:
        details = await fetch_json(backend, DownloadTargetKind.RESTORE_OUTCOMES, name, options)
    except FileMissing:
        pass  # a restore of Velero, or of an older version
    except (ClientError, KubeError, StorageError, ValueError) as error:
        unshown.add("reasons of the outcomes", error)
    try:
        return restored_objects(found if isinstance(found, dict) else None, details)
    except ValueError as error:
        return f"<error reading restore resource list: {error}>"
