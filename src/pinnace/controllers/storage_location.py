"""The BackupStorageLocation controller: which locations can be used. (docs/spec: CTL 12, STO 7, API 5)

Each key is one location and is looked at again exactly when its next validation is due.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Final

from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.definitions.spec_fields import check_spec
from pinnace.api.objects import JSONObject, text
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import format_time, is_ahead, later
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationPhase
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import patch_status
from pinnace.kube.errors import Conflict, KubeError, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.credentials_store import IGNORED_FILE, NAMED_FILE
from pinnace.storage.errors import StorageError
from pinnace.storage.newest import Link

log = get_logger(__name__)

NAME: Final = "backup-storage-location"
WORKERS: Final = 32
"""Locations validated side by side, each costs one request that waits. A tenant has a share of them only."""

VALIDATION_SECONDS: Final = 30.0
"""The limit for one location: a store may answer slowly on purpose, and others of its tenant wait for it."""
SHORTEST_FREQUENCY: Final = Duration.seconds(1)
"""A shorter one is a mistake, and would keep the server busy with one location."""

_LONGEST_MESSAGE: Final = 1000


class StorageLocationReconciler:
    """Validates locations and makes sure that there is a default location.

    Args:
        default_location: the location that becomes the default when none is marked.
        validation_frequency: how often a location without a frequency of its own is validated.
    """

    def __init__(
        self,
        scope: Scope,
        locations: LocationStores,
        *,
        default_location: str,
        validation_frequency: Duration,
    ) -> None:
        self._scope = scope
        self._locations = locations
        self._default_location = default_location
        self._frequency = validation_frequency
        self._validated_spec: dict[Key, JSONObject] = {}
        self._vanished: dict[str, list[Link]] = {}

    async def reconcile(self, key: Key) -> Result:
        """Validate the location if it is due, and return when it is due again."""
        client = self._scope.client
        try:
            obj = await client.get(BACKUP_STORAGE_LOCATIONS, key.name, key.namespace)
        except NotFound:
            self._validated_spec.pop(key, None)
            self._vanished.pop(key.name, None)
            self._scope.metrics.location_gone(key.name)
            return DONE
        try:
            requested = text(obj, "metadata", "annotations", labels.VALIDATION_REQUESTED)
            location = decode(BackupStorageLocation, obj)
        except DecodeError as error:
            await self._write(key, obj, str(error))
            await self._answer(key, requested)
            return DONE
        frequency = effective_frequency(location.spec.validation_frequency, self._frequency)
        # Not the generation: without a status subresource, each of our own writes raises it.
        spec = obj.get("spec") or {}
        edited = self._validated_spec.get(key, spec) != spec
        now = self._scope.clock.now()
        asked = edited or bool(requested)
        if not asked and not is_due(location.status.last_validation_time, frequency, now):
            self._validated_spec.setdefault(key, spec)
            if phase := location.status.phase:  # a former server may have found it
                available = phase == BackupStorageLocationPhase.AVAILABLE
                self._scope.metrics.location_status(key.name, available=available)
            return _next(location.status.last_validation_time, frequency, now)
        spec = await self._make_default(key, obj)
        findings = check_spec("BackupStorageLocation", obj)
        if edited or key not in self._validated_spec:
            ignored = [IGNORED_FILE] if NAMED_FILE in location.spec.config else []
            for warning in (*findings.warnings, *ignored):
                log.warning(warning, backupLocation=key.name)
        await self._write(key, obj, "; ".join(findings.errors) or await self._problem(location))
        self._validated_spec[key] = spec
        await self._answer(key, requested)
        return _next(now, frequency, now)

    async def _problem(self, location: BackupStorageLocation) -> str:
        """Why the location cannot be used; empty if it can."""
        try:
            async with asyncio.timeout(VALIDATION_SECONDS), self._locations.open_location(location) as store:
                await store.validate()
                await self._look_for_signed(location.metadata.name, store)
        except TimeoutError:
            return f"no answer within {VALIDATION_SECONDS:g} seconds"
        except (StorageError, KubeError) as error:
            problem = str(error) or type(error).__name__
            return f"{problem} ({IGNORED_FILE})" if NAMED_FILE in location.spec.config else problem
        return ""

    async def _look_for_signed(self, name: str, store: BackupStore) -> None:
        """See whether the newest signed backups are there. A location without them can be used. (ADR 125)"""
        if not (newest := store.newest_outside):
            return
        vanished = await store.vanished()
        for link in vanished:
            if link not in self._vanished.get(name, ()):  # said once
                log.error(
                    "A signed backup has vanished, and nobody with the signing key has removed it",
                    backupLocation=name,
                    backup=link.backup,
                )
        self._vanished[name] = vanished
        self._scope.metrics.signed_backups(name, newest, len(vanished))

    async def _write(self, key: Key, obj: JSONObject, problem: str) -> None:
        phase = BackupStorageLocationPhase.UNAVAILABLE if problem else BackupStorageLocationPhase.AVAILABLE
        if problem:
            log.error(f'Backup storage location "{key.name}" is unavailable', error=problem)
        elif (obj.get("status") or {}).get("phase") != phase:
            log.info("Backup storage location is available", backupLocation=key.name)
        status = {
            "phase": str(phase),
            "lastValidationTime": format_time(self._scope.clock.now()),
            "message": problem[:_LONGEST_MESSAGE] or None,
        }
        self._scope.metrics.location_status(key.name, available=not problem)
        await patch_status(self._scope, BACKUP_STORAGE_LOCATIONS, key, status)

    async def _answer(self, key: Key, requested: str) -> None:
        """Remove the request, once the status has the result; a newer one stays. (ADR 103)"""
        if not requested:
            return
        client = self._scope.client
        try:
            obj = await client.get(BACKUP_STORAGE_LOCATIONS, key.name, key.namespace)
            if text(obj, "metadata", "annotations", labels.VALIDATION_REQUESTED) != requested:
                return
            metadata = {
                "resourceVersion": obj["metadata"]["resourceVersion"],
                "annotations": {labels.VALIDATION_REQUESTED: None},
            }
            await client.patch(BACKUP_STORAGE_LOCATIONS, key.name, {"metadata": metadata}, key.namespace)
        except (Conflict, NotFound):
            return  # whatever has changed it brings the key back, and the request is seen again

    async def _make_default(self, key: Key, obj: JSONObject) -> JSONObject:
        """Mark the server's default location if no location is marked; return the spec after that. (STO 13)

        Of several that are marked, the one that was created last stays so. (docs/spec: BEY 7.3)
        """
        spec: JSONObject = obj.get("spec") or {}
        if spec.get("default"):
            await self._keep_one_default(key.namespace)
            return spec
        if key.name != self._default_location:
            return spec
        client = self._scope.client
        others = await client.list_all(BACKUP_STORAGE_LOCATIONS, key.namespace)
        if any((other.get("spec") or {}).get("default") for other in others):
            return spec
        patched = await client.patch(
            BACKUP_STORAGE_LOCATIONS, key.name, {"spec": {"default": True}}, key.namespace
        )
        return dict(patched["spec"])

    async def _keep_one_default(self, namespace: str) -> None:
        client = self._scope.client
        found = await client.list_all(BACKUP_STORAGE_LOCATIONS, namespace)
        marked = sorted((obj for obj in found if (obj.get("spec") or {}).get("default")), key=_age)
        for older in marked[:-1]:
            name, kept = older["metadata"]["name"], marked[-1]["metadata"]["name"]
            log.warning(
                "Several locations are marked as the default: the one that was created last stays so",
                backupLocation=name,
                default=kept,
            )
            patch = {
                "metadata": {"resourceVersion": older["metadata"]["resourceVersion"]},
                "spec": {"default": False},
            }
            try:
                await client.patch(BACKUP_STORAGE_LOCATIONS, name, patch, namespace)
            except (Conflict, NotFound):
                continue  # the next validation looks at what it is then


def _age(obj: JSONObject) -> tuple[str, str]:
    return str(obj["metadata"].get("creationTimestamp") or ""), str(obj["metadata"]["name"])


def effective_frequency(own: Duration | None, server: Duration) -> Duration:
    """How often a location is validated; a negative frequency means the server's, zero only once."""
    frequency = server if own is None or own < Duration() else own
    return max(frequency, SHORTEST_FREQUENCY) if frequency > Duration() else frequency


def is_due(last: datetime | None, frequency: Duration, now: datetime) -> bool:
    """Never validated: always; frequency 0: never again. (docs/spec: STO 7, STO-010)"""
    if last is None or is_ahead(last, now):
        return True
    if frequency <= Duration():
        return False
    period = frequency.to_timedelta()
    # A last time in the future is nobody's: it must not end all validation.
    return now >= later(last, period) or last > later(now, period)


def _next(last: datetime | None, frequency: Duration, now: datetime) -> Result:
    if last is None or frequency <= Duration():
        return DONE
    wait = later(last, frequency.to_timedelta()) - now
    return Result.after(max(wait, timedelta(0)).total_seconds())


def controller(parts: Parts) -> Controller:
    """The BackupStorageLocation controller of a server."""
    reconciler = StorageLocationReconciler(
        parts.scope,
        parts.locations,
        default_location=parts.options.defaults.storage_location,
        validation_frequency=parts.options.store_validation_frequency,
    )
    made = Controller(
        NAME,
        reconciler.reconcile,
        workers=WORKERS,
        clock=parts.scope.clock,
        queue=parts.queue(parts.lanes.of_locations(WORKERS)),
    )
    made.watch(parts.informers.of(BACKUP_STORAGE_LOCATIONS), on_delete=True)
    return made
