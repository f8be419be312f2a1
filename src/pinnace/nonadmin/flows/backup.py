"""The next step of a NonAdminBackup. Pure. (docs/spec: NAC 9)

    spec.deleteBackup ───────> Deleting, delete itself, then restores, DeleteBackupRequest, wait, finalizer
    deletionTimestamp ───────> Deleting, delete the Backup object (the data stays), wait, finalizer
    synced from storage ─────> take over the Backup that is there, or refuse
    else ─> New ─> validate ─> unique id ─> finalizer ─> Backup ─> Created, mirrored from then on

The order unique id, finalizer, Backup is never changed: after a crash in between, the next pass continues
with the same id. A Backup is created once and never again. A Backup that another request owns is neither
shown nor touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pinnace.api import labels
from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.nonadmin.names import (
    BACKUP_FINALIZER,
    MAX_HOOK_TIME_ANNOTATION,
    NAMESPACE_UID_ANNOTATION,
    Origin,
)
from pinnace.api.objects import JSONObject, listed, mapping, member, text
from pinnace.api.values.times import parse_time
from pinnace.kube.resources import BACKUPS, DELETE_BACKUP_REQUESTS
from pinnace.nonadmin import mirror
from pinnace.nonadmin.flows import limits
from pinnace.nonadmin.flows.conditions import (
    ConditionState,
    condition,
    holds,
    with_condition,
    with_phase,
    without_condition,
)
from pinnace.nonadmin.flows.request import RequestFlow
from pinnace.nonadmin.flows.steps import (
    DONE,
    REQUEUE,
    Create,
    Delete,
    Fail,
    Finish,
    PassMemory,
    Step,
    WriteStatus,
)
from pinnace.nonadmin.identity import former_namespace, is_own_backup, new_id, owner_metadata, synced_from
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_RESTORES,
    has_finalizer,
    is_being_deleted,
    velero_body,
)
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.specs.backup import StorageChoice, backup_problem, backup_spec

REMOVED: Final = (
    "NonAdminBackup is finalized and its associated Velero Backup has been removed. "
    "Please create a new NonAdminBackup to initiate a new backup"
)
NOTHING_TO_SYNC: Final = "related Velero Backup to be synced from does not exist"
FOREIGN: Final = "related Velero Backup does not point to NonAdminBackup namespace"
PLAIN_DELETE: Final = "permanent backup deletion requires setting spec.deleteBackup to true"
PERMANENT_DELETE: Final = "backup accepted for deletion"

FIRST_RETRY: Final = timedelta(seconds=30)
LONGEST_RETRY: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """The facts that the next step of a NonAdminBackup depends on.

    Attributes:
        namespace: the server's.
        new_uuid: for the unique id, if one is needed.
        storage: the location that the request names.
        backup: the Backup with its unique id.
        backup_location: the BackupStorageLocation that holds that Backup.
        delete_requests: DeleteBackupRequests of that Backup.
        restores: NonAdminRestores of its namespace that name the request.
        pod_volumes, uploads: PodVolumeBackups and DataUploads of that Backup.
        position: of that Backup in the queue.
        unfinished: the number of other Backups of the namespace that are not served yet.
        namespace_uid: of the request's namespace, where it is needed; empty if there is none.
        ambiguous: why the Backup could not be determined; nothing is done then.
    """

    namespace: str
    settings: AdminSettings
    now: datetime
    new_uuid: str
    storage: StorageChoice
    backup: JSONObject | None = None
    backup_location: JSONObject | None = None
    delete_requests: Sequence[JSONObject] = ()
    restores: Sequence[JSONObject] = ()
    pod_volumes: Sequence[JSONObject] = ()
    uploads: Sequence[JSONObject] = ()
    position: int = 0
    unfinished: int = 0
    namespace_uid: str = ""
    ambiguous: str = ""


def backup_id(non_admin_backup: JSONObject) -> str:
    """The unique id: the stored one, or that of the Backup that the synchronizer made the request for."""
    return stored_id(non_admin_backup) or synced_from(non_admin_backup)


def stored_id(non_admin_backup: JSONObject) -> str:
    """The unique id in the status; empty before one is stored."""
    return text(non_admin_backup, "status", "veleroBackup", "nacuuid")


def next_backup_step(non_admin_backup: JSONObject, facts: BackupFacts, memory: PassMemory) -> Step:
    """The next step; always the same for the same request and facts."""
    flow = _BackupFlow(non_admin_backup, facts, memory)
    if member(non_admin_backup, "spec", "deleteBackup") is True:
        return flow.delete_for_good()
    if is_being_deleted(non_admin_backup):
        return flow.delete_object()
    if synced_from(non_admin_backup):
        return flow.take_over()
    return flow.create_or_update()


class _BackupFlow(RequestFlow):
    def __init__(self, non_admin_backup: JSONObject, facts: BackupFacts, memory: PassMemory) -> None:
        super().__init__(non_admin_backup, memory, finalizer=BACKUP_FINALIZER, now=facts.now)
        self._non_admin_backup = non_admin_backup
        self._facts = facts
        self._id = stored_id(non_admin_backup)

    # --- Create and update (NAC 9.2) --------------------------------------------------------------------

    def create_or_update(self) -> Step:
        if self._facts.ambiguous:
            return Fail(error=self._facts.ambiguous)
        if self._facts.backup is not None and not self._is_own():
            return Finish(refusal=FOREIGN)
        if step := self._mark_new() or self._validated():
            return step
        if not self._id:
            namespace, name = self._key
            return self._store_id(new_id(namespace, name, self._facts.new_uuid))
        return self._add_finalizer() or self._create_or_mirror()

    def _validated(self) -> Step | None:
        facts = self._facts
        if self._was_removed() or (self._is_own() and self._was_accepted()):
            return None
        if problem := backup_problem(self._non_admin_backup, facts.storage, facts.settings, facts.namespace):
            return self._refuse("InvalidBackupSpec", problem)
        limit = facts.settings.max_unfinished_backups
        if facts.backup is None and limit and facts.unfinished >= limit:
            return self._refuse(limits.BACKUPS, limits.message("backups", limit))
        return self._accept("BackupAccepted", "backup accepted")

    def _create_or_mirror(self) -> Step:
        if self._facts.backup is not None:
            return self._mirror()
        if holds(self._status, "Queued"):
            return self._refuse("VeleroBackupNotFound", REMOVED)
        owner = owner_metadata(Origin.BACKUP, self._id, self._key)
        owner["annotations"][MAX_HOOK_TIME_ANNOTATION] = str(self._facts.settings.max_hook_time)
        if self._facts.namespace_uid:
            owner["annotations"][NAMESPACE_UID_ANNOTATION] = self._facts.namespace_uid
        metadata = {"name": self._id, "namespace": self._facts.namespace, **owner}
        spec = backup_spec(self._non_admin_backup, self._facts.storage, self._facts.settings)
        body = velero_body(BACKUPS, metadata, spec)
        return Create(resource=BACKUPS, namespace=self._facts.namespace, body=body)

    def _was_removed(self) -> bool:
        """Whether the Backup was created and is gone: then nothing in the spec matters any more."""
        return self._facts.backup is None and holds(self._status, "Queued")

    # --- Found in storage (NAC 9.3) ---------------------------------------------------------------------

    def take_over(self) -> Step:
        if self._facts.ambiguous:
            return Fail(error=self._facts.ambiguous)
        queued = holds(self._status, "Queued")
        if not self._is_own() or (not self._id and self._is_of_former_namespace()):
            # To a tenant, the Backup of another tenant looks like none. (docs/spec: NAC 17 A7, A29, A31)
            return self._refuse("VeleroBackupNotFound", REMOVED if queued else NOTHING_TO_SYNC)
        if not self._id:
            return self._store_id(synced_from(self._non_admin_backup))
        return self._add_finalizer() or self._mirror()

    def _is_of_former_namespace(self) -> bool:
        """Whether the Backup is of a former namespace of this name, and not handed over. (NAC 17 A29)"""
        uid = self._facts.namespace_uid
        former = former_namespace(self._facts.backup, self._facts.backup_location)
        return bool(former) and not self._facts.settings.hands_over(self._key.namespace, former, uid)

    # --- Deletion of the object (NAC 9.4) ---------------------------------------------------------------

    def delete_object(self) -> Step:
        step = self._begin_deletion(PLAIN_DELETE)
        if step is not None:
            return step
        if self._facts.ambiguous:
            return Fail(error=self._facts.ambiguous)
        if not self._id or not self._is_own():
            return self._remove_finalizer()
        # The DeleteBackupRequests first, so that the server does not act on them meanwhile.
        for obj in (*self._facts.delete_requests, self._facts.backup):
            if obj is not None and not is_being_deleted(obj) and self._not_yet_deleted(obj):
                resource = BACKUPS if obj is self._facts.backup else DELETE_BACKUP_REQUESTS
                return Delete(resource=resource, obj=obj)
        return REQUEUE

    # --- Deletion with everything (NAC 9.5) -------------------------------------------------------------

    def delete_for_good(self) -> Step:
        step = self._begin_deletion(PERMANENT_DELETE, requeue=True)
        if step is not None:
            return step
        if not is_being_deleted(self._non_admin_backup) and self._not_yet_deleted(self._non_admin_backup):
            return Delete(resource=NON_ADMIN_BACKUPS, obj=self._non_admin_backup, requeue=True)
        if self._memory.requeue:
            return REQUEUE
        for restore in self._facts.restores:
            if not is_being_deleted(restore) and self._not_yet_deleted(restore):
                return Delete(resource=NON_ADMIN_RESTORES, obj=restore)
        if self._facts.ambiguous:
            return Fail(error=self._facts.ambiguous)
        if not self._id or not has_finalizer(self._non_admin_backup, BACKUP_FINALIZER) or not self._is_own():
            return self._remove_finalizer()
        return self._delete_data()

    def _delete_data(self) -> Step:
        """Ask the server to delete the Backup with its data, and wait until that is done."""
        requests = self._facts.delete_requests
        if len(requests) > 1:
            return Fail(error=f"multiple DeleteBackupRequest objects found for Velero Backup {self._id}")
        if not requests:
            return Create(
                resource=DELETE_BACKUP_REQUESTS, namespace=self._facts.namespace, body=self._delete_request()
            )
        shown = mirror.with_delete_request(self._status, requests[0], self._id)
        if self._facts.backup is not None:
            shown = self._mirrored(shown)
        if step := self._write(shown):
            return step
        if self._is_due_again(requests[0]) and self._not_yet_deleted(requests[0]):
            return Delete(resource=DELETE_BACKUP_REQUESTS, obj=requests[0])
        return REQUEUE

    def _delete_request(self) -> JSONObject:
        owner = owner_metadata(Origin.BACKUP, self._id, self._key)
        backup = {
            labels.BACKUP_NAME: labels.label_value(self._id),
            labels.BACKUP_UID: text(self._facts.backup, "metadata", "uid"),
        }
        metadata = {
            "generateName": f"{self._id}-",
            "namespace": self._facts.namespace,
            "labels": {**owner["labels"], **backup},
            "annotations": owner["annotations"],
        }
        return velero_body(DELETE_BACKUP_REQUESTS, metadata, {"backupName": self._id})

    def _is_due_again(self, request: JSONObject) -> bool:
        """Whether to replace a failed DeleteBackupRequest: after as long as deletion was tried so far."""
        status = mapping(request, "status")
        if text(status, "phase") != "Processed" or not listed(status, "errors"):
            return False
        created = parse_time(text(request, "metadata", "creationTimestamp"))
        since = text(condition(self._status, "Deleting"), "lastTransitionTime")
        tried = created - (parse_time(since) if since else created)
        return self._facts.now - created >= min(max(tried, FIRST_RETRY), LONGEST_RETRY)

    # --- Parts ------------------------------------------------------------------------------------------

    def _is_own(self) -> bool:
        backup = self._facts.backup
        return backup is not None and is_own_backup(backup, self._facts.backup_location, self._key)

    def _store_id(self, unique_id: str) -> Step:
        return WriteStatus(
            status=mirror.with_reference(self._status, "veleroBackup", unique_id, self._facts.namespace)
        )

    def _mirror(self) -> Step:
        status = with_phase(self._status, NonAdminPhase.CREATED)
        if text(condition(status, "Accepted"), "reason") == "VeleroBackupNotFound":
            status = without_condition(status, "Accepted")
        queued = ConditionState(
            type="Queued", holds=True, reason="BackupScheduled", message="Created Velero Backup object"
        )
        status = self._mirrored(with_condition(status, queued, self._facts.now))
        return self._write(status) or DONE

    def _mirrored(self, status: JSONObject) -> JSONObject:
        if self._facts.backup is None:
            return status
        shown = mirror.with_backup(status, self._facts.backup, self._facts.pod_volumes, self._facts.uploads)
        return mirror.with_queue_position(shown, self._facts.position, self._status)
