"""The DownloadRequest controller: signed URLs of stored files. (docs/spec: CTL 13, STO 9)"""

import asyncio
from datetime import datetime, timedelta
from typing import Final

from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import (
    OF_RESTORES,
    DownloadRequest,
    DownloadRequestPhase,
    DownloadTargetKind,
)
from pinnace.api.velero.restore import Restore
from pinnace.controllers.shared.locations import LocationStores, location_of
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import delete_if_there, patch_status
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import BACKUPS, DOWNLOAD_REQUESTS, RESTORES
from pinnace.runtime.backoff import FailureBackoff
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.storage.errors import StorageError

log = get_logger(__name__)

NAME: Final = "download-request"
VALIDITY: Final = timedelta(minutes=10)
WORKERS: Final = 4
"""Requests answered at once; each location has a share of them, as its store may have to be asked."""

URL_SECONDS: Final = 30.0
"""The limit for the URL of one request."""

RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 60.0
"""A request that cannot be answered is looked at some 15 times before it expires, and not 80 times."""


def backoff() -> FailureBackoff[Key]:
    """The delays between tries of one request."""
    return FailureBackoff(base_seconds=RETRY_SECONDS, cap_seconds=LONGEST_RETRY_SECONDS)


class DownloadRequestReconciler:
    """Answers requests with a URL that is valid ten minutes, and removes them when it no longer is."""

    def __init__(self, scope: Scope, locations: LocationStores) -> None:
        self._scope = scope
        self._locations = locations

    async def reconcile(self, key: Key) -> Result:
        """One pass. An error that prevents a URL is raised after the expiration was stored."""
        try:
            request = decode(
                DownloadRequest, await self._scope.client.get(DOWNLOAD_REQUESTS, key.name, key.namespace)
            )
        except NotFound:
            return DONE
        except DecodeError as error:
            log.warning("Request cannot be read", error=error)
            return DONE
        now, expiration = self._scope.clock(), request.status.expiration
        if expiration is not None and expiration < now:
            await delete_if_there(self._scope.client, DOWNLOAD_REQUESTS, key)
            return DONE
        if expiration is None:
            # Stored once, so that a request that can never succeed is deleted and not tried for ever.
            expiration = now + VALIDITY
            await self._patch_status(key, {"expiration": format_time(expiration)})
        if request.status.phase in (DownloadRequestPhase.PROCESSED, DownloadRequestPhase.FAILED):
            return _at_expiration(expiration, now)
        url = await self._url(request)
        # Signed a moment ago at the earliest, so the URL does not outlive the request by much.
        expiration = self._scope.clock() + VALIDITY
        phase = str(DownloadRequestPhase.PROCESSED)
        await self._patch_status(
            key, {"downloadURL": url, "phase": phase, "expiration": format_time(expiration)}
        )
        return _at_expiration(expiration, now)

    async def _url(self, request: DownloadRequest) -> str:
        target = request.spec.target
        try:
            kind = DownloadTargetKind(target.kind)
        except ValueError:
            raise StorageError(f'unsupported download target kind "{target.kind}"') from None
        client, namespace = self._scope.client, self._scope.namespace
        backup_name = target.name
        if kind in OF_RESTORES:
            restore = decode(Restore, await client.get(RESTORES, target.name, namespace))
            backup_name = restore.spec.backup_name
        backup = decode(Backup, await client.get(BACKUPS, backup_name, namespace))
        location = location_of(backup)
        try:
            async with asyncio.timeout(URL_SECONDS), self._locations.open(location) as store:
                return await store.signed_url(kind, target.name)
        except TimeoutError:
            raise StorageError(
                f"backup storage location {location} did not answer within {URL_SECONDS:g} seconds"
            ) from None

    async def _patch_status(self, key: Key, status: JSONObject) -> None:
        await patch_status(self._scope, DOWNLOAD_REQUESTS, key, status)


def _at_expiration(expiration: datetime, now: datetime) -> Result:
    return Result.after(max((expiration - now).total_seconds(), 0.0) + 1.0)


def controller(parts: Parts) -> Controller:
    """The DownloadRequest controller of a server."""
    requests, informers = parts.informers.of(DOWNLOAD_REQUESTS), parts.informers
    lane_of = parts.lanes.of_downloads(requests, informers.of(BACKUPS), informers.of(RESTORES), WORKERS)
    reconciler = DownloadRequestReconciler(parts.scope, parts.locations)
    made = Controller(
        NAME,
        reconciler.reconcile,
        workers=WORKERS,
        clock=parts.timers,
        queue=parts.queue(lane_of, backoff=backoff()),
    )
    # Its own patches must not undo the back-off of a request that cannot be answered.
    made.watch(requests, on_update=False)
    return made
