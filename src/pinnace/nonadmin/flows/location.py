"""The next step of a NonAdminBackupStorageLocation. Pure. (docs/spec: NAC 12)

deletionTimestamp ──> Deleting, delete request, Secret, location and the tenant's requests on it, finalizer
else ─> New ─> validate ─> unique id ─> request ─> finalizer ─> decision
             approved: Secret copied ─> location ─> Created, mirrored from then on
             pending, rejected: Secret and location removed
             spec edited since: everything stays as it was approved

What the administrator withdraws, an approval or an endpoint, is taken away before anything else is looked at:
an invalid spec or missing keys, which are the tenant's to write, keep nothing alive.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pinnace.api.codec import merge_patch
from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.nonadmin.names import ALLOWED_ENDPOINTS_ANNOTATION, LOCATION_FINALIZER, Origin
from pinnace.api.nonadmin.storage_location import ApprovalDecision, RequestPhase
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.storage_location import BackupStorageLocationSpec
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, SECRETS, APIResource
from pinnace.nonadmin import mirror
from pinnace.nonadmin.flows.conditions import (
    ConditionState,
    condition,
    with_phase,
    with_renewed_condition,
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
    Patch,
    Step,
    WriteStatus,
)
from pinnace.nonadmin.identity import id_of, new_id, origin_key, owner_metadata
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_LOCATION_REQUESTS,
    is_being_deleted,
    velero_body,
)
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.settings.values import fields, same
from pinnace.nonadmin.specs.location import (
    location_problem,
    location_spec,
    location_spec_of,
    nesting_problem,
    secret_problem,
)

MEMBER: Final = "veleroBackupStorageLocation"
SECRET_POLL_SECONDS: Final = 20.0
"""Secrets of tenants are read when needed, not watched: the server needs no right to list them all."""

_SPEC_UPDATE: Final = (
    "NaBSL Spec update not allowed. Changes will not be applied. "
    "Delete NaBSL and create new one with updated spec"
)
_REQUEST: Final = "NonAdminBackupStorageLocationRequest"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationFacts:
    """The facts that the next step of a NonAdminBackupStorageLocation depends on.

    Attributes:
        namespace: the server's.
        new_uuid: for the unique id, if one is needed.
        secret: the tenant's Secret that the location names.
        request: the NonAdminBackupStorageLocationRequest with its unique id.
        secret_copy: the Secret of the server's namespace with its unique id.
        location: the BackupStorageLocation with its unique id.
        backups: NonAdminBackups of its namespace that name the location.
        others: the locations of its namespace, if the location has no BackupStorageLocation yet.
        ambiguous: why one of those objects could not be determined; nothing is done then.
    """

    namespace: str
    settings: AdminSettings
    now: datetime
    new_uuid: str
    secret: JSONObject | None = None
    request: JSONObject | None = None
    secret_copy: JSONObject | None = None
    location: JSONObject | None = None
    backups: Sequence[JSONObject] = ()
    others: Sequence[JSONObject] = ()
    ambiguous: str = ""


def next_location_step(non_admin_location: JSONObject, facts: LocationFacts, memory: PassMemory) -> Step:
    """The next step; always the same for the same request and facts."""
    flow = _LocationFlow(non_admin_location, facts, memory)
    if facts.ambiguous:
        return Fail(error=facts.ambiguous)
    return flow.delete() if is_being_deleted(non_admin_location) else flow.create_or_update()


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Why a location may not be used, as its condition ClusterAdminApproved says it."""

    reason: str
    message: str
    phase: NonAdminPhase = NonAdminPhase.BACKING_OFF


class _LocationFlow(RequestFlow):
    def __init__(self, non_admin_location: JSONObject, facts: LocationFacts, memory: PassMemory) -> None:
        super().__init__(non_admin_location, memory, finalizer=LOCATION_FINALIZER, now=facts.now)
        self._non_admin_location = non_admin_location
        self._facts = facts
        self._id = text(self._status, MEMBER, "nacuuid")

    def create_or_update(self) -> Step:
        if step := self._mark_new():
            return step
        for obj in (self._facts.request, self._facts.secret_copy, self._facts.location):
            if obj is not None and not self._is_own(obj):
                return Finish(refusal="an object of the server's namespace belongs to another location")
        return (
            self._withdrawn()
            or self._validated()
            or self._identified()
            or self._requested()
            or self._add_finalizer()
            or self._decided()
            or self._secret_synced()
            or self._location_synced()
            or self._mirrored()
        )

    # --- What the administrator has withdrawn (NAC 12.2) ------------------------------------------------

    def _withdrawn(self) -> Step | None:
        """Take back what an approval or a list of endpoints allowed before."""
        if not self._id:
            return None
        verdict = self._verdict()
        if verdict is None:
            return self._request_updated() or self._endpoints_updated()
        return self._deletion_of_copies() or self._request_updated() or self._write(self._withheld(verdict))

    def _verdict(self) -> _Verdict | None:
        """Why the location may not be used; None if approved. A request that is gone approves nothing."""
        if not self._facts.settings.require_approval:
            return None
        match text(self._facts.request, "spec", "approvalDecision"):
            case ApprovalDecision.APPROVE:
                return None
            case ApprovalDecision.PENDING | "":
                return _Verdict("BslSpecApprovalPending", f"{_REQUEST} approval pending", NonAdminPhase.NEW)
            case ApprovalDecision.REJECT:
                return _Verdict("BslSpecRejected", f"{_REQUEST} approval decision set to Reject")
            case _:
                return _Verdict("BslSpecInvalid", f"{_REQUEST} approval decision is invalid")

    def _withheld(self, verdict: _Verdict) -> JSONObject:
        """The status of a location that may not be used."""
        status = self._observe("ClusterAdminApproved", False, verdict.reason, verdict.message)
        for kind in ("SecretSynced", "BackupStorageLocationSynced"):
            status = without_condition(status, kind)
        return status

    def _request_updated(self) -> Step | None:
        """Update the approval request, if there is one, from the spec, the settings and the decision."""
        request = self._facts.request
        if request is None:
            return None
        wanted = self._request_status(mapping(self._status, MEMBER, "requestedSpec"))
        if missing := merge_patch(mapping(request, "status"), wanted):
            return Patch(
                resource=NON_ADMIN_LOCATION_REQUESTS,
                obj=request,
                patch={"status": missing},
                subresource="status",
            )
        decision = text(request, "spec", "approvalDecision")
        if not self._facts.settings.require_approval and decision != ApprovalDecision.APPROVE:
            patch = {"spec": {"approvalDecision": str(ApprovalDecision.APPROVE)}}
            return Patch(resource=NON_ADMIN_LOCATION_REQUESTS, obj=request, patch=patch)
        return None

    def _endpoints_updated(self) -> Step | None:
        """Update the annotation with the endpoints for server and node agents, which see no settings."""
        location, allowed = self._facts.location, self._allowed_endpoints()
        if (
            location is None
            or text(location, "metadata", "annotations", ALLOWED_ENDPOINTS_ANNOTATION) == allowed
        ):
            return None
        patch = {"metadata": {"annotations": {ALLOWED_ENDPOINTS_ANNOTATION: allowed}}}
        return Patch(
            resource=BACKUP_STORAGE_LOCATIONS, obj=location, patch=patch, failed_status=self._failed_sync()
        )

    # --- Steps before the decision (NAC 12.1, 1-5) ------------------------------------------------------

    def _validated(self) -> Step | None:
        settings = self._facts.settings
        problem = location_problem(self._non_admin_location, settings, self._facts.namespace)
        problem = problem or nesting_problem(self._non_admin_location, self._facts.others)
        of_secret = "" if problem else secret_problem(self._non_admin_location, self._facts.secret, settings)
        if problem or of_secret:
            wait_seconds = SECRET_POLL_SECONDS if of_secret else None
            return self._refuse("BslSpecValidation", problem or of_secret, after_seconds=wait_seconds)
        return self._accept("BslSpecValidation", "NonAdminBackupStorageLocation spec validation successful")

    def _identified(self) -> Step | None:
        if self._id:
            return None
        unique_id = new_id(*self._key, self._facts.new_uuid)
        status = mirror.with_reference(self._status, MEMBER, unique_id, self._facts.namespace)
        return WriteStatus(status=status)

    def _requested(self) -> Step | None:
        """Create the approval request."""
        if self._facts.request is None:
            asked = mapping(self._status, MEMBER, "requestedSpec")
            if not asked or self._facts.settings.require_approval:
                asked = location_spec_of(self._non_admin_location)
            noted = {**mapping(self._status, MEMBER), "requestedSpec": asked}
            if noted != mapping(self._status, MEMBER):
                return WriteStatus(status={**self._status, MEMBER: noted})
            return Create(
                resource=NON_ADMIN_LOCATION_REQUESTS,
                namespace=self._facts.namespace,
                body=self._new_request(),
            )
        # The decision is taken from what is stored, in a pass of its own.
        return REQUEUE if NON_ADMIN_LOCATION_REQUESTS.name in self._memory.created else None

    def _new_request(self) -> JSONObject:
        required = self._facts.settings.require_approval
        decision = ApprovalDecision.PENDING if required else ApprovalDecision.APPROVE
        metadata = {"name": self._id, "namespace": self._facts.namespace, **self._owner_metadata()}
        return velero_body(NON_ADMIN_LOCATION_REQUESTS, metadata, {"approvalDecision": str(decision)})

    def _request_status(self, asked: JSONObject) -> JSONObject:
        status = mapping(self._facts.request, "status")
        source = mapping(status, "nonAdminBackupStorageLocation")
        phases = {
            ApprovalDecision.APPROVE: RequestPhase.APPROVED,
            ApprovalDecision.REJECT: RequestPhase.REJECTED,
        }
        decision = text(self._facts.request, "spec", "approvalDecision")
        phase = next((phases[known] for known in phases if known == decision), RequestPhase.PENDING)
        if not mapping(source, "requestedSpec"):
            reference = {"nacuuid": self._id, "name": self._key.name, "namespace": self._key.namespace}
            source = {"requestedSpec": asked or location_spec_of(self._non_admin_location), **reference}
        return {**status, "phase": str(phase), "nonAdminBackupStorageLocation": source}

    # --- The decision (NAC 12.2) ------------------------------------------------------------------------

    def _decided(self) -> Step | None:
        source = mapping(self._facts.request, "status", "nonAdminBackupStorageLocation")
        is_edited = not _same_spec(
            location_spec_of(self._non_admin_location), mapping(source, "requestedSpec")
        )
        if is_edited:
            status = self._observe("SpecUpdateApproved", False, "BslSpecUpdateRejected", _SPEC_UPDATE)
        else:
            status = without_condition(self._status, "SpecUpdateApproved")
        if step := self._write(status):
            return step
        if verdict := self._verdict():
            return self._withhold(verdict)
        if is_edited:
            return Finish(refusal=_SPEC_UPDATE)
        if text(source, "nacuuid") != self._id:
            message = f"{_REQUEST} does not contain valid NAC UUID and can not be approved"
            return self._withhold(_Verdict("BslSpecUpdateRejected", message))
        message = f"{_REQUEST} approval decision set to Approve"
        return self._write(self._observe("ClusterAdminApproved", True, "BslSpecApproved", message))

    def _withhold(self, verdict: _Verdict) -> Step:
        """Say why the location is not used, and remove what is left from when it was approved."""
        status = {**self._withheld(verdict), "phase": str(verdict.phase)}
        return self._write(status) or self._deletion_of_copies() or Finish(refusal=verdict.message)

    # --- What an approved location gets (NAC 12.1, 7-9) -------------------------------------------------

    def _secret_synced(self) -> Step | None:
        secret, copy = mapping(self._facts.secret), self._facts.secret_copy
        failed = self._observe(
            "SecretSynced", False, "SecretSyncFailed", "Failed to sync secret to OADP namespace"
        )
        # Only the key that is needed, under a type that the API server accepts with any content: the tenant's
        # own type may require other keys, or make a controller of the cluster act on the copy.
        key = text(location_spec_of(self._non_admin_location), "credential", "key")
        data = {key: mapping(secret, "data").get(key)}
        if copy is None:
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": self._id, "namespace": self._facts.namespace, **self._owner_metadata()},
                "type": "Opaque",
                "data": data,
            }
            return Create(resource=SECRETS, namespace=self._facts.namespace, body=body, failed_status=failed)
        if text(copy, "type") != "Opaque" and self._not_yet_deleted(copy):
            return Delete(resource=SECRETS, obj=copy)
        if difference := merge_patch(mapping(copy, "data"), data):
            return Patch(resource=SECRETS, obj=copy, patch={"data": difference}, failed_status=failed)
        return self._mark_synced(
            SECRETS,
            "SecretSynced",
            ("SecretCreated", "Secret successfully created in the OADP namespace"),
            ("SecretUpdated", "Secret successfully updated in the OADP namespace"),
        )

    def _location_synced(self) -> Step | None:
        wanted = location_spec(self._non_admin_location, self._facts.settings, self._id)
        failed, location = self._failed_sync(), self._facts.location
        if location is None:
            owner = self._owner_metadata()
            owner["annotations"][ALLOWED_ENDPOINTS_ANNOTATION] = self._allowed_endpoints()
            metadata = {"name": self._id, "namespace": self._facts.namespace, **owner}
            body = velero_body(BACKUP_STORAGE_LOCATIONS, metadata, wanted)
            return Create(
                resource=BACKUP_STORAGE_LOCATIONS,
                namespace=self._facts.namespace,
                body=body,
                failed_status=failed,
            )
        if not _same_spec(mapping(location, "spec"), wanted):
            patch = {"spec": merge_patch(mapping(location, "spec"), wanted)}
            return Patch(resource=BACKUP_STORAGE_LOCATIONS, obj=location, patch=patch, failed_status=failed)
        return self._mark_synced(
            BACKUP_STORAGE_LOCATIONS,
            "BackupStorageLocationSynced",
            (
                "BackupStorageLocationCreated",
                "BackupStorageLocation successfully created in the OADP namespace",
            ),
            (
                "BackupStorageLocationUpdated",
                "BackupStorageLocation successfully updated in the OADP namespace",
            ),
        )

    def _failed_sync(self) -> JSONObject:
        return self._observe(
            "BackupStorageLocationSynced",
            False,
            "BackupStorageLocationSyncError",
            "BackupStorageLocation failure during sync",
        )

    def _allowed_endpoints(self) -> str:
        return ",".join(self._facts.settings.endpoints())

    def _mark_synced(
        self, resource: APIResource, kind: str, created: tuple[str, str], updated: tuple[str, str]
    ) -> Step | None:
        """Say that a copy is in sync; each write of the copy renews the time of the condition."""
        was_created = resource.name in self._memory.created
        was_patched = resource.name in self._memory.patched
        if text(condition(self._status, kind), "status") == "True" and not (was_created or was_patched):
            return None
        reason, message = updated if was_patched else created
        seen = ConditionState(type=kind, holds=True, reason=reason, message=message)
        return WriteStatus(status=with_renewed_condition(self._status, seen, self._facts.now))

    def _mirrored(self) -> Step:
        status = with_phase(self._status, NonAdminPhase.CREATED)
        status = mirror.with_location(status, self._facts.location)
        return self._write(status) or DONE

    # --- Deletion (NAC 12.4) ----------------------------------------------------------------------------

    def delete(self) -> Step:
        if step := self._write(with_phase(self._status, NonAdminPhase.DELETING)):
            return step
        request = self._facts.request
        if request is not None and self._is_own(request) and self._not_yet_deleted(request):
            return Delete(resource=NON_ADMIN_LOCATION_REQUESTS, obj=request)
        if step := self._deletion_of_copies():
            return step
        for non_admin_backup in self._facts.backups:
            if not is_being_deleted(non_admin_backup) and self._not_yet_deleted(non_admin_backup):
                return Delete(resource=NON_ADMIN_BACKUPS, obj=non_admin_backup)
        return self._remove_finalizer()

    def _deletion_of_copies(self) -> Step | None:
        for resource, obj in (
            (SECRETS, self._facts.secret_copy),
            (BACKUP_STORAGE_LOCATIONS, self._facts.location),
        ):
            if obj is not None and self._is_own(obj) and self._not_yet_deleted(obj):
                return Delete(resource=resource, obj=obj)
        return None

    # --- Parts ------------------------------------------------------------------------------------------

    def _owner_metadata(self) -> JSONObject:
        return owner_metadata(Origin.LOCATION, self._id, self._key)

    def _is_own(self, obj: JSONObject) -> bool:
        return origin_key(obj, Origin.LOCATION) == self._key and id_of(obj, Origin.LOCATION) == self._id


def _same_spec(one: JSONObject, other: JSONObject) -> bool:
    """Whether two specs mean the same."""
    nodes = fields(BackupStorageLocationSpec).items()
    return all(same(one.get(name), other.get(name), node) for name, node in nodes)
