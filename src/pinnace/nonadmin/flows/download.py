"""The next step of a NonAdminDownloadRequest. Pure. (docs/spec: NAC 13)

    expired ──> delete it          answered, or there is no such file ──> wait until it expires
    else ─> check the owner of the file ─> DownloadRequest ─> copy its answer

Signed URLs lead only into the tenant's own locations: the location that holds the backup decides, not a
request, which the tenant can edit. (A23)
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pinnace.api.labels import KEY_FILES
from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.times import parse_time
from pinnace.api.velero.download_request import OF_RESTORES, DownloadRequestPhase
from pinnace.kube.resources import DOWNLOAD_REQUESTS
from pinnace.nonadmin.flows.conditions import ConditionState, condition, with_condition
from pinnace.nonadmin.flows.steps import DONE, Create, Delete, Finish, PassMemory, Patch, Step, WriteStatus
from pinnace.nonadmin.identity import is_own_backup, origin_key, owner_metadata, tenant_of_location
from pinnace.nonadmin.objects import NON_ADMIN_DOWNLOADS, NOT_USED, is_being_deleted, velero_body
from pinnace.runtime.keys import Key

UNKNOWN_EXPIRY_SECONDS: Final = 600.0

FIRST_LOOK_SECONDS: Final = 2.0
"""The first delay for a Backup or Restore that is about to be made."""

FIRST_RETRY_SECONDS: Final = 30.0
LONGEST_RETRY_SECONDS: Final = 3600.0
"""The delays of a request that names an object that does not exist. Its creation queues the request too."""


_MESSAGES: Final = {
    NOT_USED: "backup does not use nonadminbackupstoragelocation, recreate nadr to process",
    "NonAdminBackupNotAvailable": "cannot get nonadminbackup",
    "NonAdminRestoreNotAvailable": "cannot get nonadminrestore",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFacts:
    """The facts that the next step of a NonAdminDownloadRequest depends on.

    Attributes:
        namespace: the server's.
        non_admin_restore, restore: the NonAdminRestore that the request names, if any, and its Restore.
        non_admin_backup, backup: the NonAdminBackup that the request is about, and its Backup.
        backup_location: the BackupStorageLocation that holds that Backup.
        download: the DownloadRequest that was made for the request.
    """

    namespace: str
    now: datetime
    non_admin_restore: JSONObject | None = None
    restore: JSONObject | None = None
    non_admin_backup: JSONObject | None = None
    backup: JSONObject | None = None
    backup_location: JSONObject | None = None
    download: JSONObject | None = None


def download_name(non_admin_download: JSONObject) -> str:
    """The name of the DownloadRequest of a request."""
    return f"nadr-{text(non_admin_download, 'metadata', 'uid')}"


def is_about_restore(non_admin_download: JSONObject) -> bool:
    """Whether the file belongs to a restore."""
    return text(non_admin_download, "spec", "target", "kind") in OF_RESTORES


def next_download_step(non_admin_download: JSONObject, facts: DownloadFacts, memory: PassMemory) -> Step:
    """The next step; always the same for the same request and facts."""
    if is_being_deleted(non_admin_download) or not text(non_admin_download, "spec", "target", "kind"):
        return DONE
    answer = mapping(non_admin_download, "status", "velero", "status")
    expires = _seconds_left(answer, facts.now)
    if expires is not None and expires < 0:
        gone = text(non_admin_download, "metadata", "uid") in memory.deleted
        return DONE if gone else Delete(resource=NON_ADMIN_DOWNLOADS, obj=non_admin_download)
    if text(answer, "downloadURL") or text(answer, "phase") == DownloadRequestPhase.FAILED:
        return Finish(after_seconds=UNKNOWN_EXPIRY_SECONDS if expires is None else expires + 1.0)
    if condition(mapping(non_admin_download, "status"), NOT_USED):
        return Finish(refusal=_MESSAGES[NOT_USED])
    if facts.download is not None:
        return _answered(non_admin_download, facts.download, facts)
    return _asked(non_admin_download, facts)


def _answered(non_admin_download: JSONObject, download: JSONObject, facts: DownloadFacts) -> Step:
    answer = mapping(download, "status")
    expires = _seconds_left(answer, facts.now)
    if origin_key(download, Origin.DOWNLOAD) != Key.of(non_admin_download):
        return Finish(refusal="the DownloadRequest of this name belongs to another request")
    failed = text(answer, "phase") == DownloadRequestPhase.FAILED
    if not failed and (text(answer, "phase") != "Processed" or not text(answer, "downloadURL")):
        return DONE
    if expires is not None and expires < 0:
        return DONE
    key_files = text(download, "metadata", "annotations", KEY_FILES)
    if key_files and text(non_admin_download, "metadata", "annotations", KEY_FILES) != key_files:
        # Before the answer: who waits for that reads both.
        patch = {"metadata": {"annotations": {KEY_FILES: key_files}}}
        return Patch(resource=NON_ADMIN_DOWNLOADS, obj=non_admin_download, patch=patch)
    seen = ConditionState(
        type="Processed",
        holds=not failed,
        reason="Error" if failed else "Success",
        message=text(answer, "message") if failed else "",
    )
    status = {
        "phase": str(NonAdminPhase.BACKING_OFF if failed else NonAdminPhase.CREATED),
        "conditions": mapping(with_condition({}, seen, facts.now))["conditions"],
        "velero": {"status": answer},
    }
    return WriteStatus(status=status)


def _asked(non_admin_download: JSONObject, facts: DownloadFacts) -> Step:
    about_restore = is_about_restore(non_admin_download)
    if about_restore and facts.non_admin_restore is None:
        return _unavailable(non_admin_download, "NonAdminRestoreNotAvailable", facts)
    if facts.non_admin_backup is None:
        return _unavailable(non_admin_download, "NonAdminBackupNotAvailable", facts)
    if not text(facts.non_admin_backup, "spec", "backupSpec", "storageLocation"):
        return _not_used(non_admin_download, facts)
    if facts.backup is None or (about_restore and facts.restore is None):
        # Later each time: the object may never come, and there may be any number of such requests.
        return Finish(after_seconds=_retry_seconds(non_admin_download, facts.now, FIRST_LOOK_SECONDS))
    if not is_own_backup(facts.backup, facts.backup_location, Key.of(facts.non_admin_backup)):
        return _unavailable(non_admin_download, "NonAdminBackupNotAvailable", facts)
    if tenant_of_location(facts.backup_location) != text(non_admin_download, "metadata", "namespace"):
        return _not_used(non_admin_download, facts)
    target = facts.backup
    if about_restore and facts.restore is not None and facts.non_admin_restore is not None:
        target = facts.restore
        if origin_key(target, Origin.RESTORE) != Key.of(facts.non_admin_restore):
            return _unavailable(non_admin_download, "NonAdminRestoreNotAvailable", facts)
    return Create(
        resource=DOWNLOAD_REQUESTS,
        namespace=facts.namespace,
        body=_download(non_admin_download, text(target, "metadata", "name"), facts),
    )


def _download(non_admin_download: JSONObject, target: str, facts: DownloadFacts) -> JSONObject:
    key = Key.of(non_admin_download)
    owner = owner_metadata(Origin.DOWNLOAD, text(non_admin_download, "metadata", "uid"), key)
    metadata = {"name": download_name(non_admin_download), "namespace": facts.namespace, **owner}
    kind = text(non_admin_download, "spec", "target", "kind")
    return velero_body(DOWNLOAD_REQUESTS, metadata, {"target": {"kind": kind, "name": target}})


def _unavailable(non_admin_download: JSONObject, kind: str, facts: DownloadFacts) -> Step:
    wait_seconds = _retry_seconds(non_admin_download, facts.now, FIRST_RETRY_SECONDS)
    last = Finish(refusal=_MESSAGES[kind], after_seconds=wait_seconds)
    status = _refused(non_admin_download, kind, facts)
    return last if status == mapping(non_admin_download, "status") else WriteStatus(status=status, last=last)


def _retry_seconds(non_admin_download: JSONObject, now: datetime, first_seconds: float) -> float:
    """The delay before the next pass: as long as the request has existed so far."""
    try:
        age = (now - parse_time(text(non_admin_download, "metadata", "creationTimestamp"))).total_seconds()
    except ValueError:
        age = 0.0
    return min(max(age, first_seconds), LONGEST_RETRY_SECONDS)


def _not_used(non_admin_download: JSONObject, facts: DownloadFacts) -> Step:
    return WriteStatus(status=_refused(non_admin_download, NOT_USED, facts))


def _refused(non_admin_download: JSONObject, kind: str, facts: DownloadFacts) -> JSONObject:
    """The status with that condition and no other."""
    status = mapping(non_admin_download, "status")
    former = condition(status, kind)
    only = {"conditions": [former]} if former else {}
    seen = ConditionState(type=kind, holds=True, reason="Error", message=_MESSAGES[kind])
    conditions = with_condition(only, seen, facts.now)["conditions"]
    return {**status, "phase": str(NonAdminPhase.BACKING_OFF), "conditions": conditions}


def _seconds_left(answer: JSONObject, now: datetime) -> float | None:
    """The time until a URL expires; None if the answer does not say."""
    try:
        return (parse_time(text(answer, "expiration")) - now).total_seconds()
    except ValueError:
        return None
