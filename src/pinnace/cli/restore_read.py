"""Gathering what `restore describe` shows. (docs/spec: CLI 5.3)"""

import sys
from typing import Any

from pinnace.api import labels
from pinnace.api.download_request import DownloadTargetKind
from pinnace.cli.backend import Backend, fetch_json
from pinnace.cli.describe_restore import RestoreFacts, describe_restore
from pinnace.cli.describing import View
from pinnace.cli.errors import CommandError
from pinnace.kube.errors import KubeError

JSONObject = dict[str, Any]


async def describe_stored_restore(backend: Backend, restore: JSONObject, view: View) -> str:
    """Describe a restore; what cannot be read is said on stderr, or in its place."""
    return describe_restore(restore, await gather(backend, restore, view), view)


async def gather(backend: Backend, restore: JSONObject, view: View) -> RestoreFacts:
    """What belongs to a restore."""
    name, status = restore["metadata"]["name"], restore.get("status") or {}
    results: JSONObject | str | None = None
    undecodable = False
    if status.get("warnings") or status.get("errors"):
        try:
            results = await fetch_json(backend, DownloadTargetKind.RESTORE_RESULTS, name, view.downloads)
        except CommandError as exc:
            results = str(exc)
        except ValueError as exc:
            results, undecodable = str(exc), True
    try:
        selector = f"{labels.RESTORE_NAME}={labels.label_value(name)}"
        volumes = await backend.objects("podvolumerestores", selector)
    except KubeError as exc:
        print(f"error getting PodVolumeRestores for restore {name}: {exc}", file=sys.stderr)
        volumes = []
    return RestoreFacts(results=results, undecodable_results=undecodable, pod_volume_restores=volumes)
