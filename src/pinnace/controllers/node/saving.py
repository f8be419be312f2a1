"""Saves a volume and discards snapshots, for PodVolumeBackups and DataUploads alike.

A snapshot is discarded if no object will refer to it. (docs/adr/043)
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

from pinnace.aio.blocking import finish
from pinnace.api.objects import JSONObject
from pinnace.controllers.node.reconciler import PodVolumeFailed
from pinnace.kube.errors import PASSING_ERRORS
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.interface import Saved, Saver
from pinnace.volumes.uploader.processes import UNDO_SECONDS

log = get_logger(__name__)


async def save_held(
    holding: AbstractAsyncContextManager[None],
    save: Callable[[], Awaitable[Saved]],
    discarded: Callable[[str], Coroutine[Any, Any, None]],
    *,
    check: Callable[[], Awaitable[None]] | None = None,
) -> Saved:
    """Save a volume and hold it meanwhile; discard the snapshot if the volume may not have been whole.

    Args:
        holding: as `NodeVolumes.held` gives it.
        save: saves the volume.
        discarded: removes the snapshot of that id; does its best.
        check: called when the volume is saved; raises PodVolumeFailed if it may not be whole.

    Raises:
        PodVolumeFailed: the volume is missing, or was removed while it was saved.
    """
    saved = Saved(snapshot="")
    try:
        async with holding:
            saved = await save()
            if check is not None:
                await check()
    except (PodVolumeFailed, *PASSING_ERRORS):
        if saved.snapshot:
            await discarded(saved.snapshot)
        raise
    except asyncio.CancelledError:
        if saved.snapshot:
            with suppress(TimeoutError):
                await finish(discarded(saved.snapshot), limit_seconds=UNDO_SECONDS)
        raise
    return saved


def status_of(path: Path, saved: Saved) -> JSONObject:
    """The status of the object of a volume that was saved."""
    status: JSONObject = {"path": str(path), "snapshotID": saved.snapshot}
    if saved.new_bytes >= 0:
        status["incrementalBytes"] = saved.new_bytes
    if saved.lacks:
        status["message"] = saved.lacks
    return status


async def discard(uploader: Saver, place: Repository, tags: Mapping[str, str], snapshot: str) -> None:
    """Remove a snapshot, or, where its id is not known, all with these tags; a failure is only logged.

    A snapshot that stays takes up space until its repository is deleted, and prevents nothing.
    """
    try:
        if snapshot:
            await uploader.forget(place, snapshot)
        else:
            await uploader.forget_tagged(place, tags)
    except UploaderError as error:
        log.warning("A snapshot that no object refers to may stay in the repository", error=error)
