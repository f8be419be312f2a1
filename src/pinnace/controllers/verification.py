"""Verifies the newest backup of a Schedule when an annotation of the Schedule says so. (docs/adr/067)

    `pinnace.io/verify` ──> not a cron expression: said in `last-verification`
          └──due──> the newest finished Backup is verified ──> annotations of the Backup and the Schedule

Verifications count from the last one, which the Schedule's annotation `last-verification` names, or from its
creation; those missed meanwhile become one. An unfinished one is made again from the beginning.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Final

from pinnace.aio.temporary import temporary_folder
from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.cron import Cron, CronError, read_schedule
from pinnace.api.values.times import format_time, parse_time
from pinnace.api.velero.backup import Backup, BackupPhase
from pinnace.browse.verifying import Finding
from pinnace.browse.verifying import Result as Outcome
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import PASSING_ERRORS
from pinnace.csi.snapshots import FEATURE
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import BACKUP_REPOSITORIES, BACKUPS, EVENTS, SCHEDULES
from pinnace.operations.snapshots import snapshotters_of
from pinnace.operations.verification.volumes import ClusterView, NoCluster, VolumeLookup
from pinnace.operations.verification.whole import verify_stored
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.backup_store import BackupStore
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.locks import RepositoryLocks
from pinnace.volumes.uploader.share import ReadShare

log = get_logger(__name__)

NAME: Final = "verification"

_FINISHED: Final = frozenset({BackupPhase.COMPLETED, BackupPhase.PARTIALLY_FAILED})
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAST_DUE_SECONDS: Final = 0.001
_LONGEST_FINDINGS: Final = 4096
_LONGEST_MESSAGE: Final = 1000


class Soundness(StrEnum):
    """The result of a verification, as annotations have it."""

    SOUND = "sound"
    UNSOUND = "unsound"
    NO_BACKUP = "no-backup"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a Schedule's annotations ask for."""

    cron: Cron
    share: ReadShare | None = None

    @classmethod
    def of(cls, schedule: JSONObject) -> "Wanted | None":
        """None if no verification is asked for. Raises ValueError: the annotations cannot be read."""
        notes = mapping(schedule, "metadata", "annotations")
        expression = text(notes, labels.VERIFY)
        if not expression:
            return None
        share = text(notes, labels.VERIFY_READ_DATA)
        try:
            return cls(cron=read_schedule(expression), share=ReadShare.parse(share) if share else None)
        except CronError as error:
            raise ValueError(f"annotation {labels.VERIFY}: {error}") from error
        except ValueError as error:
            raise ValueError(f"annotation {labels.VERIFY_READ_DATA}: {error}") from error


class VerificationReconciler:
    """Verifies backups of Schedules.

    Args:
        zone: of the clock that cron expressions follow.
        locks: of the repositories of volumes' data.
    """

    def __init__(
        self, scope: Scope, locations: LocationStores, *, zone: tzinfo, locks: RepositoryLocks
    ) -> None:
        self._scope = scope
        self._locations = locations
        self._zone = zone
        self._locks = locks

    async def reconcile(self, key: Key) -> Result:
        """Verify the newest backup of the Schedule if that is due."""
        metrics, label = self._scope.metrics, labels.label_value(key.name)
        try:
            schedule = await self._scope.client.get(SCHEDULES, key.name, key.namespace)
            wanted = Wanted.of(schedule)
        except NotFound:
            metrics.verification_gone(label)
            return DONE
        except ValueError as error:
            await self._refuse(key, schedule, str(error))
            return DONE
        if wanted is None or schedule["metadata"].get("deletionTimestamp"):
            metrics.verification_gone(label)
            return DONE
        last, result = last_verification(schedule)
        if last is not None and result in (Soundness.SOUND, Soundness.UNSOUND):
            metrics.backup_verified(label, last.timestamp(), sound=result == Soundness.SOUND)
        now = self._scope.clock()
        created = schedule["metadata"].get("creationTimestamp")
        due = wanted.cron.next(last or (parse_time(created) if created else _LONG_AGO), self._zone)
        if due is None or now <= due:
            return self._at(due, now)
        with bound_fields(schedule=str(key)):
            await self._verify_newest(key, schedule, wanted)
        return self._at(wanted.cron.next(now, self._zone), self._scope.clock())

    async def _verify_newest(self, key: Key, schedule: JSONObject, wanted: Wanted) -> None:
        selector = f"{labels.SCHEDULE_NAME}={labels.label_value(key.name)}"
        listed = await self._scope.client.list_all(BACKUPS, key.namespace, label_selector=selector)
        backup = newest_finished(listed)
        if backup is None:
            log.warning("There is no finished backup of the schedule to verify")
            await self._note(key, schedule, f"{format_time(self._scope.clock())} {Soundness.NO_BACKUP}")
            return
        name = backup.metadata.name
        log.info("Verifying a backup", backup=name)
        findings = await self._findings(backup, wanted)
        bad = [finding for finding in findings if finding.is_problem]
        result = Soundness.UNSOUND if bad else Soundness.SOUND
        shown = summary_of(findings)
        (log.error if bad else log.info)("Verified a backup", backup=name, result=result, findings=shown)
        when = format_time(self._scope.clock())
        notes = {labels.VERIFIED: f"{when} {result}", labels.VERIFICATION_FINDINGS: shown or None}
        patch = {"metadata": {"uid": backup.metadata.uid, "annotations": notes}}
        try:
            await self._scope.client.patch(BACKUPS, name, patch, key.namespace)
        except NotFound:
            log.info("The backup was deleted while it was verified", backup=name)
        await self._tell(backup, result, shown)
        await self._note(key, schedule, f"{when} {result} {name}")
        self._scope.metrics.backup_verified(
            labels.label_value(key.name), self._scope.clock().timestamp(), sound=not bad
        )

    async def _findings(self, backup: Backup, wanted: Wanted) -> list[Finding]:
        """Raises StorageError, KubeError: the location or the cluster cannot be asked now."""
        scope = self._scope
        location = await self._locations.location(backup.spec.storage_location)
        # A tenant wrote what is in its location: it could name any snapshot in the storage system.
        is_trusted = not tenant_of(location.metadata)
        async with (
            self._locations.open(location.metadata.name) as store,
            scope.plugins.operation(client=scope.client, namespace=scope.namespace) as plugins,
        ):

            async def view() -> ClusterView:
                if not is_trusted:
                    raise NoCluster("the snapshots of a backup in a tenant's location are not looked for")
                discovery = await Discovery.load(scope.client)
                context = scope.run_context(discovery=discovery, store=store, plugins=plugins)
                return ClusterView(
                    client=scope.client,
                    discovery=discovery,
                    snapshotters=snapshotters_of(context),
                    # Without the feature, a server may have no right to remove the contents that it makes.
                    ask_in=scope.namespace if FEATURE in scope.features else "",
                )

            async def access(workdir: Path) -> AccessProvider:
                return AccessProvider(scope.client, scope.namespace, workdir)

            lookup = VolumeLookup(
                location=location,
                store=store,
                access=access,
                cluster=view,
                share=wanted.share,
                hold=self._held,
            )
            return await self._verified(store, backup, lookup)

    async def _verified(self, store: BackupStore, backup: Backup, lookup: VolumeLookup) -> list[Finding]:
        with temporary_folder(self._scope.workdir, "verification-") as folder:
            return await verify_stored(store, backup.metadata.name, lookup, folder)

    @asynccontextmanager
    async def _held(self, place: Repository) -> AsyncIterator[None]:
        """Keep maintenance, which removes data, from running meanwhile."""
        names = [
            obj["metadata"]["name"]
            for obj in await self._scope.client.list_all(BACKUP_REPOSITORIES, self._scope.namespace)
            if text(obj, "spec", "volumeNamespace") == place.namespace
            and text(obj, "spec", "backupStorageLocation") == place.location
            and (text(obj, "spec", "repositoryType") or "restic") == place.uploader
        ]
        if not names:
            yield
            return
        async with self._locks.shared(names[0]):
            yield

    async def _refuse(self, key: Key, schedule: JSONObject, reason: str) -> None:
        note = f"{format_time(self._scope.clock())} {Soundness.INVALID} {reason}"[:_LONGEST_MESSAGE]
        _, _, former = _last_note(schedule).partition(" ")
        if former != note.partition(" ")[2]:
            log.warning("Backups of the schedule are not verified", schedule=str(key), error=reason)
            await self._note(key, schedule, note)

    async def _note(self, key: Key, schedule: JSONObject, note: str) -> None:
        uid = schedule["metadata"]["uid"]
        patch = {"metadata": {"uid": uid, "annotations": {labels.LAST_VERIFICATION: note}}}
        try:
            await self._scope.client.patch(SCHEDULES, key.name, patch, key.namespace)
        except NotFound:
            return

    async def _tell(self, backup: Backup, result: Soundness, findings: str) -> None:
        """Write an Event of the Backup; one that is refused is only logged."""
        when = format_time(self._scope.clock())
        body: JSONObject = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "generateName": f"{backup.metadata.name[:200]}.",
                "namespace": self._scope.namespace,
            },
            "involvedObject": {
                "apiVersion": backup.api_version,
                "kind": backup.kind,
                "namespace": self._scope.namespace,
                "name": backup.metadata.name,
                "uid": backup.metadata.uid,
            },
            "type": "Warning" if result == Soundness.UNSOUND else "Normal",
            "reason": "Verified",
            "message": f"The backup is {result}. {findings}"[:_LONGEST_MESSAGE].strip(),
            "source": {"component": "pinnace"},
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
        }
        try:
            await self._scope.client.create(EVENTS, body, self._scope.namespace)
        except PASSING_ERRORS:
            raise
        except KubeError as error:
            log.warning("The result of a verification could not be written as an Event", error=error)

    def _at(self, due: datetime | None, now: datetime) -> Result:
        if due is None:
            return DONE
        return Result.after(max((due - now).total_seconds(), 0.0) + _PAST_DUE_SECONDS)


def newest_finished(listed: Sequence[JSONObject]) -> Backup | None:
    """The Backup that began last of those that hold something. Pure."""
    found = []
    for obj in listed:
        try:
            backup = decode(Backup, obj)
        except DecodeError:
            continue
        if backup.status.phase in _FINISHED and not obj["metadata"].get("deletionTimestamp"):
            found.append(backup)
    return max(found, key=lambda each: each.status.start_timestamp or _LONG_AGO, default=None)


def last_verification(schedule: JSONObject) -> tuple[datetime | None, str]:
    """When a Schedule's backup was last verified, and the result; None if it is not known. Pure."""
    when, _, rest = _last_note(schedule).partition(" ")
    try:
        return parse_time(when), rest.partition(" ")[0]
    except ValueError:
        return None, ""


def summary_of(findings: Sequence[Finding]) -> str:
    """What is bad, and then what was not checked, as one text. Pure."""
    worst_first = sorted(
        (finding for finding in findings if finding.result in (Outcome.BAD, Outcome.UNCHECKED)),
        key=lambda finding: finding.result != Outcome.BAD,
    )
    shown = "; ".join(f"{each.check}: {each.result}: {each.detail}" for each in worst_first)
    return shown if len(shown) <= _LONGEST_FINDINGS else f"{shown[:_LONGEST_FINDINGS]}..."


def _last_note(schedule: JSONObject) -> str:
    return text(schedule, "metadata", "annotations", labels.LAST_VERIFICATION)


def controller(parts: Parts) -> Controller:
    """The verification controller of a server."""
    informer, queue = parts.informers.of(SCHEDULES), parts.queue()
    reconciler = VerificationReconciler(
        parts.scope, parts.locations, zone=parts.options.zone, locks=parts.locks
    )
    made = Controller(NAME, reconciler.reconcile, workers=1, clock=parts.timers, queue=queue)
    made.watch(informer)
    return made
