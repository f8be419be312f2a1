"""The next step of a NonAdminRestore. Pure. (docs/spec: NAC 10)

deletionTimestamp ──> Deleting, delete the Restore object, wait, finalizer
else ─> New ─> validate ─> unique id ─> finalizer ─> Restore ─> Created, mirrored from then on
interrupted ─> (asked by annotation) validate again ─> ask the server ─> annotation away (docs/adr/131)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pinnace.api.labels import RESUME_REQUESTED
from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.nonadmin.names import (
    MAX_HOOK_TIME_ANNOTATION,
    RESTORABLE_ANNOTATION,
    RESTORE_FINALIZER,
    Origin,
)
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import RestorePhase
from pinnace.api.resuming import is_requested, times_resumed, why_not_resumable
from pinnace.api.values.times import format_time
from pinnace.kube.resources import RESTORES
from pinnace.nonadmin import mirror
from pinnace.nonadmin.flows import limits
from pinnace.nonadmin.flows.conditions import (
    RESUMED_CONDITION,
    ConditionState,
    condition,
    holds,
    with_condition,
    with_phase,
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
    Patch,
    Step,
    WriteStatus,
)
from pinnace.nonadmin.identity import is_administrators, is_own_backup, new_id, origin_key, owner_metadata
from pinnace.nonadmin.objects import NON_ADMIN_RESTORES, is_being_deleted, velero_body
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.specs.restore import (
    chosen_objects,
    identity_secret,
    restore_problem,
    restore_spec,
    widened_fields,
)
from pinnace.runtime.keys import Key

REMOVED: Final = (
    "NonAdminRestore is finalized and its associated Velero Restore has been removed. "
    "Please create a new NonAdminRestore to initiate a new Restore"
)
FOREIGN: Final = "related Velero Restore does not point to NonAdminRestore namespace"

_INTERRUPTED: Final = "RestoreInterrupted"
_REQUESTED: Final = "ResumeRequested"
_REFUSED: Final = "ResumeRefused"
_GOES_ON: Final = "RestoreResumed"


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
            return self._resume(self._facts.restore) or self._mirror(self._facts.restore)
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
        return self._backup_problem(non_admin_backup)

    def _backup_problem(self, non_admin_backup: JSONObject) -> str:
        facts = self._facts
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
            **identity_secret(self._non_admin_restore),
            MAX_HOOK_TIME_ANNOTATION: limit,
        }
        trusted = is_administrators(self._facts.backup, self._facts.backup_location)
        allowed = self._facts.settings.restorable_resources if trusted else ()
        if allowed:
            metadata["annotations"] = {**metadata["annotations"], RESTORABLE_ANNOTATION: ",".join(allowed)}
        spec = self._spec(self._facts.non_admin_backup, trusted=trusted)
        return Create(
            resource=RESTORES,
            namespace=self._facts.namespace,
            body=velero_body(RESTORES, metadata, spec),
        )

    def _spec(self, non_admin_backup: JSONObject, *, trusted: bool) -> JSONObject:
        return restore_spec(self._non_admin_restore, non_admin_backup, self._facts.settings, trusted=trusted)

    def _resume(self, restore: JSONObject) -> Step | None:
        """Have the server resume an interrupted restore whose tenant asks for it, or say why not.

        The annotation goes last: whatever a crash leaves out before that is done by the next pass.
        """
        is_interrupted = not why_not_resumable(restore)
        if not is_requested(self._non_admin_restore):
            return self._note_interruption(restore, is_interrupted=is_interrupted)
        if is_interrupted and not is_requested(restore):
            if problem := self._resume_problem(restore):
                return self._note_resume(False, _REFUSED, problem) or self._answered()
            asked = self._note_resume(True, _REQUESTED, "the server was asked to continue the restore")
            return asked or self._ask_server(restore)
        # A Restore that this request was passed on to before a crash may be running again, or have ended.
        if not is_interrupted and self._resume_reason != _REQUESTED:
            problem = (
                f"the restore was not interrupted; its phase is {text(restore, 'status', 'phase') or 'New'}"
            )
            return self._note_resume(False, _REFUSED, problem) or self._answered()
        return self._answered()

    @property
    def _resume_reason(self) -> str:
        return text(condition(self._status, RESUMED_CONDITION), "reason")

    def _note_interruption(self, restore: JSONObject, *, is_interrupted: bool) -> Step | None:
        reason = self._resume_reason
        if is_interrupted and reason in ("", _GOES_ON) and not is_requested(restore):
            name = self._key.name
            how = f"the restore was interrupted: `pinnace nonadmin restore resume {name}` continues it"
            return self._note_resume(False, _INTERRUPTED, how)
        goes_on = text(restore, "status", "phase") == RestorePhase.IN_PROGRESS and bool(reason)
        if times_resumed(restore) and (
            goes_on or (not is_interrupted and reason in (_INTERRUPTED, _REQUESTED))
        ):
            return self._note_resume(True, _GOES_ON, "the restore was continued")
        return None

    def _note_resume(self, is_resumed: bool, reason: str, message: str) -> Step | None:
        return self._write(self._observe(RESUMED_CONDITION, is_resumed, reason, message))

    def _resume_problem(self, restore: JSONObject) -> str:
        """Why the restore may not go on by the rules that hold now, as a new one might not begin."""
        non_admin_backup, facts = self._facts.non_admin_backup, self._facts
        problem = restore_problem(self._non_admin_restore, non_admin_backup, facts.settings, facts.namespace)
        if problem or non_admin_backup is None:
            return problem
        if problem := self._backup_problem(non_admin_backup):
            return problem
        trusted = is_administrators(facts.backup, facts.backup_location)
        wanted = self._spec(non_admin_backup, trusted=trusted)
        if widened := widened_fields(mapping(restore, "spec"), wanted):
            return (
                f"the request or the administrator's rules have changed since it began: {', '.join(widened)};"
                " make a new NonAdminRestore"
            )
        limit = facts.settings.max_unfinished_restores
        if limit and facts.unfinished >= limit:
            return (
                f"the administrator allows {limit} unfinished restores in a namespace: ask again when another"
                " one has ended"
            )
        return ""

    def _ask_server(self, restore: JSONObject) -> Step:
        annotations = {
            RESUME_REQUESTED: format_time(self._facts.now),
            MAX_HOOK_TIME_ANNOTATION: str(self._facts.settings.max_hook_time),
        }
        return Patch(resource=RESTORES, obj=restore, patch={"metadata": {"annotations": annotations}})

    def _answered(self) -> Step:
        patch: JSONObject = {"metadata": {"annotations": {RESUME_REQUESTED: None}}}
        return Patch(resource=NON_ADMIN_RESTORES, obj=self._non_admin_restore, patch=patch)

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
