"""The next step of a NonAdminRestore. Pure. (docs/spec: NAC 10)

deletionTimestamp ──> Deleting, delete the Restore object, wait, finalizer
else ─> New ─> validate ─> unique id ─> finalizer ─> Restore ─> Created, mirrored from then on
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.nonadmin.names import (
    MAX_HOOK_TIME_ANNOTATION,
    RESTORABLE_ANNOTATION,
    RESTORE_FINALIZER,
    Origin,
)
from pinnace.api.objects import JSONObject, text
from pinnace.kube.resources import RESTORES
from pinnace.nonadmin import mirror
from pinnace.nonadmin.flows import limits
from pinnace.nonadmin.flows.conditions import ConditionState, holds, with_condition, with_phase
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
from pinnace.nonadmin.identity import is_administrators, is_own_backup, new_id, origin_key, owner_metadata
from pinnace.nonadmin.objects import is_being_deleted, velero_body
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.specs.restore import chosen_objects, restore_problem, restore_spec
from pinnace.runtime.keys import Key

REMOVED: Final = (
    "NonAdminRestore is finalized and its associated Velero Restore has been removed. "
    "Please create a new NonAdminRestore to initiate a new Restore"
)
FOREIGN: Final = "related Velero Restore does not point to NonAdminRestore namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    """The facts that the next step of a NonAdminRestore depends on.

    Attributes:
        namespace: the server's.
        new_uuid: for the unique id, if one is needed.
        non_admin_backup: the NonAdminBackup that the request names.
        backup, backup_location: the Backup of that NonAdminBackup, and the location that holds it.
        restore: the Restore with its unique id.
        pod_volumes, downloads: PodVolumeRestores and DataDownloads of that Restore.
        position: of that Restore in the queue.
        unfinished: how many other Restores of the namespace are not served yet.
        ambiguous: why the Restore could not be told; nothing is done then.
    """

    namespace: str
    settings: AdminSettings
    now: datetime
    new_uuid: str
    non_admin_backup: JSONObject | None = None
    backup: JSONObject | None = None
    backup_location: JSONObject | None = None
    restore: JSONObject | None = None
    pod_volumes: Sequence[JSONObject] = ()
    downloads: Sequence[JSONObject] = ()
    position: int = 0
    unfinished: int = 0
    ambiguous: str = ""


def restore_id(non_admin_restore: JSONObject) -> str:
    """The unique id; empty before there is one."""
    return text(non_admin_restore, "status", "veleroRestore", "nacuuid")


def next_restore_step(non_admin_restore: JSONObject, facts: RestoreFacts, memory: PassMemory) -> Step:
    """The next step; always the same for the same request and facts."""
    flow = _RestoreFlow(non_admin_restore, facts, memory)
    return flow.delete() if is_being_deleted(non_admin_restore) else flow.create_or_update()


class _RestoreFlow(RequestFlow):
    def __init__(self, non_admin_restore: JSONObject, facts: RestoreFacts, memory: PassMemory) -> None:
        super().__init__(non_admin_restore, memory, finalizer=RESTORE_FINALIZER, now=facts.now)
        self._non_admin_restore = non_admin_restore
        self._facts = facts
        self._id = restore_id(non_admin_restore)

    def create_or_update(self) -> Step:
        if self._facts.ambiguous:
            return Fail(error=self._facts.ambiguous)
        if self._facts.restore is not None and not self._is_own():
            return Finish(refusal=FOREIGN)
        if step := self._mark_new() or self._validated():
            return step
        if not self._id:
            unique_id = new_id(*self._key, self._facts.new_uuid)
            return WriteStatus(
                status=mirror.with_reference(self._status, "veleroRestore", unique_id, self._facts.namespace)
            )
        if step := self._add_finalizer():
            return step
        if self._facts.restore is not None:
            return self._mirror(self._facts.restore)
        if holds(self._status, "Queued"):
            return self._refuse("VeleroRestoreNotFound", REMOVED)
        return self._create()

    def _validated(self) -> Step | None:
        restore = self._facts.restore
        if holds(self._status, "Queued") and (restore is None or self._was_accepted()):
            return None
        if problem := self._problem():
            return self._refuse("InvalidRestoreSpec", problem)
        limit = self._facts.settings.max_unfinished_restores
        if restore is None and limit and self._facts.unfinished >= limit:
            return self._refuse(limits.RESTORES, limits.message("restores", limit))
        return self._accept("RestoreAccepted", "restore accepted")

    def _problem(self) -> str:
        non_admin_backup, facts = self._facts.non_admin_backup, self._facts
        problem = restore_problem(self._non_admin_restore, non_admin_backup, facts.settings, facts.namespace)
        if problem or facts.restore is not None or non_admin_backup is None:
            return problem
        # That a status names a Backup does not make it the tenant's. (docs/spec: NAC 17 A7, A8)
        if facts.backup is None or not is_own_backup(
            facts.backup, facts.backup_location, Key.of(non_admin_backup)
        ):
            return (
                "NonAdminRestore spec.restoreSpec.backupName is invalid: "
                "the Velero Backup of the NonAdminBackup does not exist"
            )
        return ""

    def _create(self) -> Step:
        if self._facts.non_admin_backup is None:
            return Fail(error="the NonAdminBackup to restore is gone")
        metadata: JSONObject = {
            "name": self._id,
            "namespace": self._facts.namespace,
            **owner_metadata(Origin.RESTORE, self._id, self._key),
        }
        limit = str(self._facts.settings.max_hook_time)
        metadata["annotations"] = {
            **metadata["annotations"],
            **chosen_objects(self._non_admin_restore),
            MAX_HOOK_TIME_ANNOTATION: limit,
        }
        trusted = is_administrators(self._facts.backup, self._facts.backup_location)
        allowed = self._facts.settings.restorable_resources if trusted else ()
        if allowed:
            metadata["annotations"] = {**metadata["annotations"], RESTORABLE_ANNOTATION: ",".join(allowed)}
        spec = restore_spec(
            self._non_admin_restore, self._facts.non_admin_backup, self._facts.settings, trusted=trusted
        )
        return Create(
            resource=RESTORES,
            namespace=self._facts.namespace,
            body=velero_body(RESTORES, metadata, spec),
        )

    def delete(self) -> Step:
        if step := self._begin_deletion("restore accepted for deletion"):
            return step
        if self._facts.ambiguous:
            return Fail(error=self._facts.ambiguous)
        restore = self._facts.restore
        if restore is None or not self._is_own():
            return self._remove_finalizer()
        if not is_being_deleted(restore) and self._not_yet_deleted(restore):
            return Delete(resource=RESTORES, obj=restore)
        return REQUEUE

    def _is_own(self) -> bool:
        restore = self._facts.restore
        return restore is not None and origin_key(restore, Origin.RESTORE) == self._key

    def _mirror(self, restore: JSONObject) -> Step:
        status = with_phase(self._status, NonAdminPhase.CREATED)
        queued = ConditionState(
            type="Queued", holds=True, reason="RestoreScheduled", message="Created Velero Restore object"
        )
        status = with_condition(status, queued, self._facts.now)
        status = mirror.with_restore(status, restore, self._facts.pod_volumes, self._facts.downloads)
        status = mirror.with_queue_position(status, self._facts.position, self._status)
        return self._write(status) or DONE
