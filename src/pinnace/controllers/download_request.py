"""The DownloadRequest controller: signed URLs of stored files. (docs/spec: CTL 13, STO 9)"""

import asyncio
from datetime import datetime, timedelta
from typing import Final

from pinnace.api import phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.labels import KEY_FILES
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import (
    OF_RESTORES,
    DownloadRequest,
    DownloadRequestPhase,
    DownloadTargetKind,
    encode_key_files,
)
from pinnace.api.velero.restore import Restore
from pinnace.controllers.shared.locations import LocationStores, location_of
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import delete_if_there, patch_status
from pinnace.kube.errors import Invalid, NotFound
from pinnace.kube.resources import BACKUPS, DOWNLOAD_REQUESTS, RESTORES, APIResource
from pinnace.runtime.backoff import FailureBackoff
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.storage.errors import StorageError, UnreadableObject

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


class NoSuchFile(Exception):
    """There is no file to download, or none that may be trusted; the text says why."""


def backoff() -> FailureBackoff[Key]:
    """The delays between tries of one request."""
    return FailureBackoff(base_seconds=RETRY_SECONDS, cap_seconds=LONGEST_RETRY_SECONDS)


class DownloadRequestReconciler:
    """Answers requests with a URL that is valid ten minutes, and removes them when it no longer is.

    One for an encrypted file gets the key files of its backup as an annotation, which Velero's definition has
    room for. A request for a file that is not there, or not as it was signed, fails at once, so that no
    client waits for it. (AFT 1.4)
    """

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
        now, expiration = self._scope.clock.now(), request.status.expiration
        if expiration is not None and expiration < now:
            await delete_if_there(self._scope.client, DOWNLOAD_REQUESTS, key)
            return DONE
        if expiration is None:
            # Stored once, so that a request that can never succeed is deleted and not tried for ever.
            expiration = now + VALIDITY
            await self._patch_status(key, {"expiration": format_time(expiration)})
        if request.status.phase in (DownloadRequestPhase.PROCESSED, DownloadRequestPhase.FAILED):
            return _at_expiration(expiration, now)
        try:
            url, key_files = await self._offered(request)
        except NoSuchFile as error:
            await self._fail(key, error)
            return _at_expiration(expiration, now)
        # Signed a moment ago at the earliest, so the URL does not outlive the request by much.
        expiration = self._scope.clock.now() + VALIDITY
        if key_files:
            # Before the URL: who waits for that reads both.
            notes = {KEY_FILES: encode_key_files(key_files)}
            patch = {"metadata": {"annotations": notes}}
            await self._scope.client.patch(DOWNLOAD_REQUESTS, key.name, patch, key.namespace)
        phase = str(DownloadRequestPhase.PROCESSED)
        await self._patch_status(
            key, {"downloadURL": url, "phase": phase, "expiration": format_time(expiration)}
        )
        return _at_expiration(expiration, now)

    async def _fail(self, key: Key, error: NoSuchFile) -> None:
        """Store that there is no file. Raises StorageError where the cluster has no such phase."""
        try:
            await self._patch_status(key, {"phase": str(DownloadRequestPhase.FAILED), "message": str(error)})
        except Invalid:
            # Definitions up to Velero 1.18 have no phase for it: the client waits until its own time is up.
            raise StorageError(str(error)) from error

    async def _offered(self, request: DownloadRequest) -> tuple[str, list[str]]:
        """The signed URL of a file, and the key files of an encrypted one. Raises NoSuchFile."""
        target = request.spec.target
        try:
            kind = DownloadTargetKind(target.kind)
        except ValueError:
            raise NoSuchFile(f'unsupported download target kind "{target.kind}"') from None
        backup_name = target.name
        if kind in OF_RESTORES:
            restore = decode(Restore, await self._found(RESTORES, target.name))
            _check_stored("restore", target.name, restore.status.phase)
            backup_name = restore.spec.backup_name
        backup = decode(Backup, await self._found(BACKUPS, backup_name))
        if kind not in OF_RESTORES:
            _check_stored("backup", backup_name, backup.status.phase)
        location = location_of(backup)
        try:
            async with asyncio.timeout(URL_SECONDS), self._locations.open(location) as store:
                if kind not in OF_RESTORES and backup.status.phase in phases.UNFINISHED:
                    store = store.parked()
                url = await store.signed_url(kind, target.name)
                return url, await store.key_files(kind, target.name)
        except UnreadableObject as error:
            # Refused for its signature, mostly: another try gives no other answer, and who waits learns it.
            raise NoSuchFile(str(error)) from error
        except TimeoutError:
            raise StorageError(
                f"backup storage location {location} did not answer within {URL_SECONDS:g} seconds"
            ) from None

    async def _found(self, resource: APIResource, name: str) -> JSONObject:
        try:
            return await self._scope.client.get(resource, name, self._scope.namespace)
        except NotFound as error:
            raise NoSuchFile(str(error)) from error

    async def _patch_status(self, key: Key, status: JSONObject) -> None:
        await patch_status(self._scope, DOWNLOAD_REQUESTS, key, status)


def _check_stored(noun: str, name: str, phase: str) -> None:
    if phase in phases.NOTHING_STORED:
        shown = phase or BackupPhase.NEW
        raise NoSuchFile(f'{noun} "{name}" is in phase "{shown}" and has not written any artifacts')


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
        clock=parts.scope.clock,
        queue=parts.queue(lane_of, backoff=backoff()),
    )
    # Its own patches must not undo the back-off of a request that cannot be answered.
    made.watch(requests, on_update=False)
    return made
