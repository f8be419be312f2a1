"""Every label and annotation name of the API, once, and the rule that makes a name fit a label value.

(docs/spec: API 10, 11; CTL 1.1)
"""

import re
from typing import Final

# --- Labels (docs/spec: API 11.1) -----------------------------------------------------------------------
BACKUP_NAME: Final = "velero.io/backup-name"
BACKUP_UID: Final = "velero.io/backup-uid"
RESTORE_NAME: Final = "velero.io/restore-name"
RESTORE_UID: Final = "velero.io/restore-uid"
SCHEDULE_NAME: Final = "velero.io/schedule-name"
POD_UID: Final = "velero.io/pod-uid"
PVC_UID: Final = "velero.io/pvc-uid"
STORAGE_LOCATION: Final = "velero.io/storage-location"
VOLUME_NAMESPACE: Final = "velero.io/volume-namespace"
REPOSITORY_TYPE: Final = "velero.io/repository-type"
GC_FAILURE: Final = "velero.io/gc-failure"
"""Label of an expired Backup that cannot be deleted: the reason."""
EXCLUDE_FROM_BACKUP: Final = "velero.io/exclude-from-backup"
EXCLUDE_FROM_BACKUP_VALUE: Final = "true"
MUST_INCLUDE_ADDITIONAL_ITEMS: Final = "backup.velero.io/must-include-additional-items"
RESTORE_MUST_INCLUDE: Final = "restore.velero.io/must-include-additional-items"
SKIP_FROM_BACKUP: Final = "velero.io/skip-from-backup"
PLUGIN_CONFIG: Final = "velero.io/plugin-config"
RESTORE_STATUS: Final = "velero.io/restore-status"
ASYNC_OPERATION_ID: Final = "velero.io/async-operation-id"
DYNAMIC_PV_RESTORE: Final = "velero.io/dynamic-pv-restore"

# Labels that `install` puts on what it generates.
COMPONENT: Final = "component"
COMPONENT_VALUE: Final = "velero"
SERVER_LABEL: Final = f"{COMPONENT}={COMPONENT_VALUE}"
"""Selects the Deployment of a server: Velero's chart names it after its release."""

# --- Annotations (docs/spec: API 11.2) ------------------------------------------------------------------
GLOBAL_VOLUME_POLICIES: Final = "velero.io/global-backup-volume-policy-configmap"
SOURCE_CLUSTER_GIT_VERSION: Final = "velero.io/source-cluster-k8s-gitversion"
SOURCE_CLUSTER_MAJOR_VERSION: Final = "velero.io/source-cluster-k8s-major-version"
SOURCE_CLUSTER_MINOR_VERSION: Final = "velero.io/source-cluster-k8s-minor-version"
SOURCE_CLUSTER_UID: Final = "pinnace.io/source-cluster-uid"
"""Annotation of a Backup: the uid of the namespace kube-system where it was made. (ADR 104)"""
SOURCE_CLUSTER_ADDRESS: Final = "pinnace.io/source-cluster-address"
"""Annotation of a Backup: the API server's address as the user knows it; a server in a pod knows none."""
POD_VOLUME_TIMEOUT: Final = "velero.io/pod-volume-timeout"
PVC_NAME: Final = "velero.io/pvc-name"
ORIGINAL_PV_NAME: Final = "velero.io/original-pv-name"
VOLUMES_TO_BACKUP: Final = "backup.velero.io/backup-volumes"
VOLUMES_TO_EXCLUDE: Final = "backup.velero.io/backup-volumes-excludes"
POD_SNAPSHOT_PREFIX: Final = "snapshot.velero.io/"

# CSI snapshots (docs/spec: SRV 18.2): on claims, on snapshots, and a label of VolumeSnapshotClasses.
VOLUME_SNAPSHOT_NAME: Final = "velero.io/volume-snapshot-name"
DATA_UPLOAD: Final = "velero.io/data-upload"
DATA_DOWNLOAD: Final = "velero.io/data-download"
EXPOSER_POD_GROUP: Final = "velero.io/exposer-pod-group"
"""Labels of the pods that hold a volume while its data is moved."""
COPIED_FOR: Final = "velero.io/backup-pvc-secret"
"""Label of a Secret or ConfigMap that was copied for a DataUpload or DataDownload: its uid."""
DATA_UPLOAD_NAME: Final = "velero.io/data-upload-name"
"""Annotation of a stored claim: `namespace/name` of the DataUpload that has its data. Without it, Velero
restores the claim empty."""
CSI_SNAPSHOT_HANDLE: Final = "velero.io/csi-volumesnapshot-handle"
CSI_DRIVER_NAME: Final = "velero.io/csi-driver-name"
CSI_DELETION_POLICY: Final = "velero.io/csi-vsc-deletion-policy"
CSI_RESTORE_SIZE: Final = "velero.io/vsi-volumesnapshot-restore-size"
"""The name of Velero's plugin for CSI; "vsi" is a slip of its first version."""
LATER_CSI_RESTORE_SIZE: Final = "velero.io/csi-volumesnapshot-restore-size"
"""The name of Velero 1.14 and later."""
CSI_MANAGED_BY: Final = "snapshot.storage.kubernetes.io/managed-by"
"""Label of a VolumeSnapshotContent: the node whose csi-snapshotter alone looks after it."""
CSI_BEING_DELETED: Final = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
"""Annotation of a VolumeSnapshotContent: its csi-snapshotter may finish the deletion."""
CSI_DEFAULT_CLASS: Final = "snapshot.storage.kubernetes.io/is-default-class"
CSI_SNAPSHOT_CLASS: Final = "velero.io/csi-volumesnapshot-class"
CSI_NOTED_DELETION_SECRET: Final = "velero.io/csi-deletesnapshotsecret"  # noqa: S105 - where a Secret is named
"""The prefix of two annotations, with `-name` and `-namespace` behind it."""

# Names of our own, which Velero does not know.
WITHOUT_VOLUME_DATA: Final = "pinnace.io/without-volume-data"
"""Annotation of a Restore: `true` creates claims and pods whose data cannot be restored, empty. (ADR 020)"""
FAILED_BACKUP: Final = "pinnace.io/allow-failed-backup"
"""Annotation of a Restore: `true` allows a Failed backup as its source. (ADR 099)"""
AWAITS_VOLUME_DATA: Final = "pinnace.io/awaits-volume-data"
"""Label in the selector of a claim that must not be bound, as its data was not restored. (ADR 020)"""
CHOSEN_OBJECTS: Final = "pinnace.io/objects"
"""Annotation of a Restore: the single objects that it is limited to. (`api.chosen_objects`)"""
NAMESPACE_SELECTOR: Final = "pinnace.io/namespace-selector"
"""Annotation of a Backup, or of a Schedule for its Backups: labels of the included namespaces. (ADR 123)"""
FORCE_DELETION: Final = "pinnace.io/force"
"""Annotation of a DeleteBackupRequest: `true` leaves volume data behind that cannot be deleted. (ADR 021)"""
OUTCOMES: Final = "pinnace.io/outcomes"
"""Annotation of a Restore: how many objects had which outcome. (`api.restore_outcomes`)"""
KEY_OF_BACKUP: Final = "pinnace.io/key-of-backup"
"""Label of a Secret with the key of an encrypted backup that waits for operations: the uid of the Backup."""
IDENTITY_SECRET: Final = "pinnace.io/identity-secret"  # noqa: S105 - the name of the annotation
"""Annotation of a Restore: the Secret, in the server's namespace, whose identities open its backup."""
KEY_FILES: Final = "pinnace.io/key-files"
"""Annotation of a DownloadRequest for an encrypted file: the key files of its backup, as a JSON list of
texts, the newest first. They are of use to whoever has an identity only. (ADR 124)"""
WAITS_FOR: Final = "pinnace.io/waits-for"
"""Annotation of a Backup or Restore that has not begun: what it waits for, as a text for people."""
ITEM_OPERATIONS: Final = "pinnace.io/item-operations"
"""Annotation of a Backup or Restore that waits for operations of plugins: a digest of their list. It proves
to a server that the list in the location is the one that it stored. (ADR 054)"""
VOLUME_PATCHES: Final = "pinnace.io/volume-patches"
"""Annotation of a Restore whose volumes get reclaim policy and labels back after its operations: a digest of
their list in the location. (ADR 073)"""
FINALIZING_SINCE: Final = "pinnace.io/finalizing-since"
"""Annotation of such a Restore: when its operations had ended."""
SIZE_BYTES: Final = "pinnace.io/size-bytes"
"""Annotation of a Backup: the size of its tarball, so that lists can show it without asking the store."""
ENCRYPTED: Final = "pinnace.io/encrypted"
"""Annotation of a Backup in a location whose other files are encrypted, `true`; whoever can write there can
remove it. (ADR 124)"""
HIDDEN_DETAILS: Final = "pinnace.io/hidden-details"
"""Annotation of a Backup whose location shows what lists and deletions need and no more, `true`. (ADR 124)"""
INITIALIZE_REPOSITORY: Final = "pinnace.io/initialize"
"""Annotation of a BackupRepository: the uid of the backup that needs it, so that it may be created in the
location. (ADR 020)"""
REPOSITORY_NAME: Final = "velero.io/repo-name"
"""Label of a maintenance Job and its pod: the BackupRepository. (docs/spec: BEY 6.3)"""
REPOSITORY_PLACE: Final = "pinnace.io/place"
"""Annotation of a BackupRepository: the location, with its uid, bucket and prefix, whose repository it is."""
LOST_BACKUPS: Final = "pinnace.io/lost-backups"
"""Annotation of a BackupRepository that was created where one had been: the backups that had their volumes
there."""

NEXT_RUN: Final = "pinnace.io/next-run"
"""Annotation of a Schedule: when it runs next, or should have run. (ADR 129)"""
LAST_SUCCESS: Final = "pinnace.io/last-success"
"""Annotation of a Schedule: when its newest Completed backup ended."""
MISSED_RUN: Final = "pinnace.io/missed-run"
"""Annotation of a Schedule: `missed <time>`, or why no run is missed. (`api.schedules.missed`)"""

MESSAGES: Final = "pinnace.io/messages"
"""Label of a Secret with the settings of messages: `true`. Annotation of a Schedule: the names of the sinks
that are told of it, or `none`. (ADR 129)"""
PROBLEM_PREFIX: Final = "pinnace.io/problem-"
"""Annotations of Backups, Restores, Schedules and locations: `<time> <text>` of a problem, by its cause."""

VERIFY: Final = "pinnace.io/verify"
"""Annotation of a Schedule: a cron expression that says when its newest backup is verified. (ADR 067)"""
VERIFY_READ_DATA: Final = "pinnace.io/verify-read-data"
"""Annotation of a Schedule, or a Backup with a request: how much data of volumes is read, such as `10%`."""
LAST_VERIFICATION: Final = "pinnace.io/last-verification"
"""Annotation of a Schedule: when a verification was last made, and its result: `<time> <result> <backup>`."""
VERIFIED: Final = "pinnace.io/verified"
"""Annotation of a Backup: when it was last verified, and the result: `<time> <result>`."""
VERIFICATION_FINDINGS: Final = "pinnace.io/verification-findings"
"""Annotation of a Backup: what its last verification found damaged, or did not check."""
VERIFY_REQUESTED: Final = "pinnace.io/verify-requested"
"""Annotation of a Backup: a text, such as the time; a new one has the server verify the backup. (ADR 067)"""
VERIFICATION_ANSWER: Final = "pinnace.io/verification-answer"
"""Annotation of a Backup: what the server found on request, in JSON. (`api.verification_answer`)"""
VERIFICATION: Final = "pinnace.io/verification"
"""Label of the objects that a verification creates in a cluster and removes again. It finds the leftovers of
a verification that was killed."""
COMPARES_FILES: Final = "pinnace.io/compares-files-of"
"""Label of the pods that `restore create --dry-run --compare-files` creates and removes again, with the name
of the backup. It finds the pods of a command that was killed."""

RETENTION: Final = "pinnace.io/retention"
"""Annotation of a Schedule: the rules that say which of its backups are kept, in YAML. (ADR 128)"""
RETENTION_STATUS: Final = "pinnace.io/retention-status"
"""Annotation of a Schedule: the result of the last pass of its rules: `<time> <result> <text>`."""
RETENTION_ANNOUNCED: Final = "pinnace.io/retention-announced"
"""Annotation of a Schedule: the deletions that wait, and since when. (`api.retention.breaker`)"""
RETENTION_CONFIRMED: Final = "pinnace.io/retention-confirmed"
"""Annotation of a Schedule: a time; the deletions that were announced by then need not wait any longer."""
OWN_TTL: Final = "pinnace.io/own-ttl"
"""Annotation of a Backup of a Schedule with rules: the template's own time to live; empty if it sets none."""
REMOVAL_REASON: Final = "pinnace.io/removal-reason"
"""Annotation of a DeleteBackupRequest: `expiry` or `rule`; a request of somebody without it."""
HOLD: Final = "pinnace.io/hold"
"""Annotation of a Backup that nothing deletes: the reason, which may be empty. (ADR 128)"""
HOLD_COPIED: Final = "pinnace.io/hold-copied"
"""Annotation of a Backup: the reason of the hold that the server has copied into the location."""
NOT_DURING: Final = "pinnace.io/not-during"
"""Annotation of a Schedule: when its runs wait, such as `Mon-Fri 08:00-18:00`. (ADR 130, `api.schedules`)"""
CATCH_UP: Final = "pinnace.io/catch-up"
"""Annotation of a Schedule: `none` leaves out runs that could not begin in time; `last` makes the last."""
ALLOW_OVERLAP: Final = "pinnace.io/allow-overlap"
"""Annotation of a Schedule: `true` lets a run begin while an earlier Backup has not ended."""
RUN_REQUESTED: Final = "pinnace.io/run-requested"
"""Annotation of a Backup that `schedule run` made: the uid of the Schedule, and when, so that it counts as
the run that was due then."""

NEWEST_SIGNED: Final = "pinnace.io/newest-signed-backups"
"""Annotation of a BackupStorageLocation: the signed backups that no later one names yet, each as
`NAME@SHA-256 of its manifest`. Whoever writes into the bucket cannot change it. (ADR 125)"""
INTERRUPTED: Final = "pinnace.io/interrupted"
"""Annotation of a Failed Restore whose process ended before the restore did: it can be resumed. (ADR 131)"""
RESUME_REQUESTED: Final = "pinnace.io/resume-requested"
"""Annotation of an interrupted Restore: a text, such as the time; a new one has the server resume it."""
RESUMED: Final = "pinnace.io/resumed"
"""Annotation of a Restore: how often it was resumed after its process had ended."""

VALIDATION_REQUESTED: Final = "pinnace.io/validation-requested"
"""Annotation of a BackupStorageLocation: any text has the server look at the location at once. It removes the
annotation when it has written the result into the status. (ADR 103)"""

# Backup hooks on pods (docs/spec: API 15.3). The bare prefix is the legacy form of a pre hook.
PRE_BACKUP_HOOK_PREFIX: Final = "pre.hook.backup.velero.io/"
POST_BACKUP_HOOK_PREFIX: Final = "post.hook.backup.velero.io/"
LEGACY_BACKUP_HOOK_PREFIX: Final = "hook.backup.velero.io/"
HOOK_COMMAND: Final = "command"
HOOK_CONTAINER: Final = "container"
HOOK_ON_ERROR: Final = "on-error"
HOOK_TIMEOUT: Final = "timeout"

# Restore hooks on pods (docs/spec: API 16.2, 16.4).
INIT_RESTORE_HOOK_CONTAINER_IMAGE: Final = "init.hook.restore.velero.io/container-image"
INIT_RESTORE_HOOK_CONTAINER_NAME: Final = "init.hook.restore.velero.io/container-name"
INIT_RESTORE_HOOK_COMMAND: Final = "init.hook.restore.velero.io/command"
POST_RESTORE_HOOK_COMMAND: Final = "post.hook.restore.velero.io/command"
POST_RESTORE_HOOK_CONTAINER: Final = "post.hook.restore.velero.io/container"
POST_RESTORE_HOOK_ON_ERROR: Final = "post.hook.restore.velero.io/on-error"
POST_RESTORE_HOOK_EXEC_TIMEOUT: Final = "post.hook.restore.velero.io/exec-timeout"
POST_RESTORE_HOOK_WAIT_FOR_READY: Final = "post.hook.restore.velero.io/wait-for-ready"
POST_RESTORE_HOOK_WAIT_TIMEOUT: Final = "post.hook.restore.velero.io/wait-timeout"

# --- Names of Kubernetes that the engines read or edit (docs/spec: API 11.2) ----------------------------
PV_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
PV_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PV_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
HOSTNAME: Final = "kubernetes.io/hostname"
CLAIM_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
CLAIM_PROVISIONER_BETA: Final = "volume.beta.kubernetes.io/storage-provisioner"
CSI_LIST_SECRET: Final = "csi.storage.k8s.io/snapshotter-list-secret"  # noqa: S105 - where a Secret is named
CSI_SNAPSHOTTER_SECRET: Final = "csi.storage.k8s.io/snapshotter-secret"  # noqa: S105 - where a Secret is named
CSI_DELETION_SECRET: Final = "snapshot.storage.kubernetes.io/deletion-secret"  # noqa: S105 - where a Secret is named
LAST_APPLIED_CONFIGURATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
MIRROR_POD: Final = "kubernetes.io/config.mirror"
TOPOLOGY_ZONE: Final = "topology.kubernetes.io/zone"
FAILURE_DOMAIN_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
CONTROLLER_UID: Final = "controller-uid"
API_SERVICE_AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"

_MAX_VALUE_BYTES: Final = 63
_HASH_DIGITS: Final = 6
_INVALID_DIGITS: Final = 16
_VALUE: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"


def label_value(name: str) -> str:
    """Return `name` if it fits a label value, else its first 57 bytes and 6 hex digits of its SHA-256.

    Writers of labels and selectors must both use it, so that selectors match. A text from a spec need not be
    a valid name: a text with characters that a label value may not hold is shortened too, so that the API
    server refuses neither labels nor selectors, and a selector keeps its meaning. (API 10, BKP 2.5)
    """
    value = _shortened(name)
    if not value or re.fullmatch(_VALUE, value):
        return value
    return f"invalid-{_digest(_bytes(name))[:_INVALID_DIGITS]}"


def _shortened(name: str) -> str:
    raw = _bytes(name)
    if len(raw) <= _MAX_VALUE_BYTES:
        return name
    # Kubernetes counts bytes; a name cut inside a character loses that character.
    head = raw[: _MAX_VALUE_BYTES - _HASH_DIGITS].decode(errors="ignore")
    return head + _digest(raw)[:_HASH_DIGITS]


def _digest(data: bytes) -> str:
    from hashlib import sha256  # few names are too long

    return sha256(data).hexdigest()


def _bytes(name: str) -> bytes:
    return name.encode(errors="surrogatepass")
