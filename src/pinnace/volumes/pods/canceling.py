"""Cancels PodVolumeBackups that their Backup no longer waits for."""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Final

from pinnace.api import phases
from pinnace.api.objects import JSONObject
from pinnace.api.phases import TransferPhase
from pinnace.api.values.times import format_time
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict, KubeError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.volumes.outcomes import is_cancel_wanted, is_new, phase_of

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""How often a conflict is tried again: an object changes only a few times meanwhile."""


async def cancel_all(
    client: KubeClient,
    resource: APIResource,
    namespace: str,
    names: Iterable[str],
    message: str,
    *,
    now: datetime,
) -> None:
    """End the objects that no agent has claimed, and set `spec.cancel` of the others for their agents.

    Errors are only logged, as the Backup ends all the same.

    Args:
        now: when those end that are ended here.
    """
    for name in names:
        try:
            await _cancel(client, resource, namespace, name, partial(_patch, message=message, now=now))
        except KubeError as error:
            fields = {"kind": resource.kind, "name": name, "error": error}
            log.warning("Could not cancel the saving of a volume", extra={"fields": fields})


async def _cancel(
    client: KubeClient,
    resource: APIResource,
    namespace: str,
    name: str,
    patch_of: Callable[[JSONObject], JSONObject],
) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            obj = await client.get(resource, name, namespace)
            if phase_of(obj) in phases.TRANSFER_ENDED or is_cancel_wanted(obj):
                return
            await client.patch(resource, name, patch_of(obj), namespace)
        except NotFound:
            return
        except Conflict:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _patch(obj: JSONObject, message: str, now: datetime) -> JSONObject:
    """The patch of the object as it was read; an agent that has claimed it since makes it a conflict."""
    status: JSONObject = {"message": message}
    if is_new(obj):
        # No agent has it, and on a node without one none ever would.
        status |= {
            "phase": str(TransferPhase.CANCELED),
            "completionTimestamp": format_time(now),
        }
    return {
        "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
        "spec": {"cancel": True},
        "status": status,
    }
