"""What to do next with a NonAdminRestore. Pure. (docs/spec: NAC 10)

deletionTimestamp ──> Deleting, delete the Restore object, wait, finalizer
else ─> New ─> validate ─> unique id ─> finalizer ─> Restore ─> Created, mirrored ever after
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
from pinnace.kube.resources import velero
from pinnace.nonadmin import mirror
from pinnace.nonadmin.flows.conditions import Observation, holds, with_condition, with_phase
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
from pinnace.nonadmin.identity import is_administrators, is_own_backup, marks, new_id, origin_key
from pinnace.nonadmin.objects import (
    is_being_deleted,
    velero_body,
)
from pinnace.nonadmin.settings import AdminSettings
from pinnace.nonadmin.specs import limits
from pinnace.nonadmin.specs.restore import restore_problem, restore_spec
from pinnace.runtime.keys import Key

RESTORES: Final = velero("restores")

REMOVED: Final = (
    "NonAdminRestore is finalized and its associated Velero Restore has been removed. "
    "Please create a new NonAdminRestore to initiate a new Restore"
)
FOREIGN: Final = "related Velero Restore does not point to NonAdminRestore namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreWorld:
    """What is known beside a NonAdminRestore.

    Attributes:
        namespace: the server's.
        new_uuid: for the unique id, should one be needed.
        nab: the NonAdminBackup that it names.
        backup, backup_location: that one's Backup and the BackupStorageLocation that holds it.
        restore: the Restore with its unique id.
        pod_volumes: PodVolumeRestores of that Restore.
        position: of that Restore in the queue.
        unfinished: how many other Restores of the namespace are not served yet.
        ambiguous: why the Restore could not be told; nothing is done then.
    """

    namespace: str
    settings: AdminSettings
    now: datetime
    new_uuid: str
    nab: JSONObject | None = None
    backup: JSONObject | None = None
    backup_location: JSONObject | None = None
    restore: JSONObject | None = None
    pod_volumes: Sequence[JSONObject] = ()
    position: int = 0
    unfinished: int = 0
    ambiguous: str = ""


def restore_id(nar: JSONObject) -> str:
    """The unique id; empty before there is one."""
    return text(nar, "status", "veleroRestore", "nacuuid")


def next_restore_step(nar: JSONObject, world: RestoreWorld, memory: PassMemory) -> Step:
    """The next thing to do; the same for the same object and world, however often it is asked."""
    flow = _RestoreFlow(nar, world, memory)
    return flow.delete() if is_being_deleted(nar) else flow.create_or_update()


class _RestoreFlow(RequestFlow):
    def __init__(self, nar: JSONObject, world: RestoreWorld, memory: PassMemory) -> None:
        super().__init__(nar, memory, finalizer=RESTORE_FINALIZER, now=world.now)
        self._nar = nar
        self._world = world
        self._id = restore_id(nar)

    def create_or_update(self) -> Step:
        if self._world.ambiguous:
            return Fail(error=self._world.ambiguous)
        if self._world.restore is not None and not self._is_own():
            return Finish(refusal=FOREIGN)
        if step := self._noticed() or self._validated():
            return step
        if not self._id:
            unique_id = new_id(*self._key, self._world.new_uuid)
            return WriteStatus(
                status=mirror.with_reference(self._status, "veleroRestore", unique_id, self._world.namespace)
            )
        if step := self._finalize():
            return step
        if self._world.restore is not None:
            return self._mirror(self._world.restore)
        if holds(self._status, "Queued"):
            return self._refuse("VeleroRestoreNotFound", REMOVED)
        return self._create()

    def _validated(self) -> Step | None:
        restore = self._world.restore
        if holds(self._status, "Queued") and (restore is None or self._was_accepted()):
            return None
        if problem := self._problem():
            return self._refuse("InvalidRestoreSpec", problem)
        limit = self._world.settings.max_unfinished_restores
        if restore is None and limit and self._world.unfinished >= limit:
            return self._refuse(limits.RESTORES, limits.message("restores", limit))
        return self._accept("RestoreAccepted", "restore accepted")

    def _problem(self) -> str:
        nab, world = self._world.nab, self._world
        problem = restore_problem(self._nar, nab, world.settings, world.namespace)
        if problem or world.restore is not None or nab is None:
            return problem
        # That a status names a Backup does not make it the tenant's. (docs/spec: NAC 17 A7, A8)
        if world.backup is None or not is_own_backup(world.backup, world.backup_location, Key.of(nab)):
            return (
                "NonAdminRestore spec.restoreSpec.backupName is invalid: "
                "the Velero Backup of the NonAdminBackup does not exist"
            )
        return ""

    def _create(self) -> Step:
        if self._world.nab is None:
            return Fail(error="the NonAdminBackup to restore is gone")
        metadata: JSONObject = {
            "name": self._id,
            "namespace": self._world.namespace,
            **marks(Origin.RESTORE, self._id, self._key),
        }
        limit = str(self._world.settings.max_hook_time)
        metadata["annotations"] = {**metadata["annotations"], MAX_HOOK_TIME_ANNOTATION: limit}
        trusted = is_administrators(self._world.backup, self._world.backup_location)
        allowed = self._world.settings.restorable_resources if trusted else ()
        if allowed:
            metadata["annotations"] = {**metadata["annotations"], RESTORABLE_ANNOTATION: ",".join(allowed)}
        spec = restore_spec(self._nar, self._world.nab, self._world.settings, trusted=trusted)
        return Create(
            resource=RESTORES,
            namespace=self._world.namespace,
            body=velero_body(RESTORES, metadata, spec),
        )

    def delete(self) -> Step:
        if step := self._begin_deletion("restore accepted for deletion"):
            return step
        if self._world.ambiguous:
            return Fail(error=self._world.ambiguous)
        restore = self._world.restore
        if restore is None or not self._is_own():
            return self._let_go()
        if not is_being_deleted(restore) and self._not_yet_deleted(restore):
            return Delete(resource=RESTORES, obj=restore)
        return REQUEUE

    def _is_own(self) -> bool:
        restore = self._world.restore
        return restore is not None and origin_key(restore, Origin.RESTORE) == self._key

    def _mirror(self, restore: JSONObject) -> Step:
        status = with_phase(self._status, NonAdminPhase.CREATED)
        queued = Observation(
            type="Queued", holds=True, reason="RestoreScheduled", message="Created Velero Restore object"
        )
        status = with_condition(status, queued, self._world.now)
        status = mirror.with_restore(status, restore, self._world.pod_volumes)
        status = mirror.with_queue_position(status, self._world.position)
        return self._write(status) or DONE
