"""Backup: what to save, and the outcome. (docs/spec: API 2, 15.1)"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import ENUM_KEY, MIN_ITEMS_KEY, NULLABLE, REQUIRED, NullableTime
from pinnace.api.meta import ConfigReference, LabelSelector, ObjectMeta
from pinnace.api.phases import BackupPhase
from pinnace.api.values.durations import Duration

CSI_SNAPSHOT_TIMEOUT: Final = Duration.minutes(10)
"""The timeout of a Backup that does not set `csiSnapshotTimeout`. (docs/spec: BEY 1.1)"""
ITEM_OPERATION_TIMEOUT: Final = Duration.hours(4)
"""The timeout of a Backup or Restore that does not set `itemOperationTimeout`. (docs/spec: BEY 1.1)"""


class BackupType(StrEnum):
    """How much of a volume is read that looks unchanged since the backup before: everything, or nothing."""

    FULL = "Full"
    INCREMENTAL = "Incremental"


class HookErrorMode(StrEnum):
    """Whether the backup of an item goes on after a hook failed."""

    CONTINUE = "Continue"
    FAIL = "Fail"


class ExecHook(Struct, rename="camel", kw_only=True):
    """A command to run in a container of the pod. No shell is involved.

    Attributes:
        container: The container to run in; the pod's first one when empty.
        command: The command and its arguments.
        on_error: Continue or Fail; Continue when empty.
        timeout: How long the command may take; 30s when zero.
    """

    container: str = ""
    command: Annotated[list[str], REQUIRED, Meta(extra={MIN_ITEMS_KEY: 1})] = []
    on_error: Annotated[str, Meta(extra={ENUM_KEY: HookErrorMode})] = ""
    timeout: Duration = Duration()


class BackupResourceHook(Struct, rename="camel", kw_only=True):
    """One hook of a list of hooks.

    Attributes:
        exec: The command to run.
    """

    exec: Annotated[ExecHook | None, REQUIRED] = None


class BackupResourceHookSpec(Struct, rename="camel", kw_only=True):
    """Hooks for the pods that match.

    Attributes:
        name: Name of this group of hooks, shown in the log.
        included_namespaces: Namespaces the hooks apply to; all when empty.
        excluded_namespaces: Namespaces the hooks do not apply to.
        included_resources: Resources the hooks apply to; all when empty. Only pods ever run hooks.
        excluded_resources: Resources the hooks do not apply to.
        label_selector: Labels that a pod must have.
        pre: Hooks run before the item is stored, in order.
        post: Hooks run after the item's additional items were stored, in order.
    """

    name: Annotated[str, REQUIRED] = ""
    included_namespaces: Annotated[list[str], NULLABLE] = []
    excluded_namespaces: Annotated[list[str], NULLABLE] = []
    included_resources: Annotated[list[str], NULLABLE] = []
    excluded_resources: Annotated[list[str], NULLABLE] = []
    label_selector: Annotated[LabelSelector | None, NULLABLE] = None
    pre: list[BackupResourceHook] = []
    post: list[BackupResourceHook] = []


class BackupHooks(Struct, rename="camel", kw_only=True):
    """Commands to run around the saving of items.

    Attributes:
        resources: Groups of hooks; all groups that match an item run.
    """

    resources: Annotated[list[BackupResourceHookSpec], NULLABLE] = []


class TemplateMetadata(Struct, rename="camel", kw_only=True):
    """Metadata that a Schedule gives to its Backups.

    Attributes:
        labels: Labels of the Backups, in place of those of the Schedule.
        annotations: Annotations of the Backups, in place of those of the Schedule. An empty map means none.
    """

    labels: dict[str, str] = {}
    annotations: Annotated[dict[str, str] | None, NULLABLE] = None


class BackupUploader(Struct, rename="camel", kw_only=True):
    """How the content of volumes is saved.

    Attributes:
        parallel_files_upload: How many files of a volume are read at once; the program's default when 0.
    """

    parallel_files_upload: int = 0


class BackupSpec(Struct, rename="camel", kw_only=True):
    """What to save, for how long, and where.

    Attributes:
        included_namespaces: Namespaces whose objects are saved; all when empty. `*` must stand alone.
        excluded_namespaces: Namespaces that are left out.
        included_resources: Resources that are saved; all when empty. `*` must stand alone.
        excluded_resources: Resources that are left out.
        label_selector: Labels that an object must have to be saved.
        snapshot_volumes: Whether to snapshot volumes; absent means wherever a snapshot location exists.
        ttl: How long the backup is kept; the server's default when zero.
        include_cluster_resources: Whether cluster-scoped objects are saved; absent means only when all
            namespaces are, or when a saved object needs them.
        hooks: Commands to run around the saving of items.
        storage_location: Name of the BackupStorageLocation; the default one when empty.
        volume_snapshot_locations: Names of VolumeSnapshotLocations, at most one for each provider.
        default_volumes_to_restic: The name of defaultVolumesToFsBackup before Velero 1.10; still read.
        ordered_resources: Objects to save first, in this order: plural resource to a comma-separated list
            of `namespace/name`, or `name` for cluster-scoped objects.
        metadata: In the template of a Schedule: labels of its Backups. A field of later versions of Velero.
        default_volumes_to_fs_backup: Whether pod volumes are saved from their files unless opted out. It must
            not differ from defaultVolumesToRestic.
        csi_snapshot_timeout: How long to wait until the storage system has accepted a CSI snapshot and
            returned its handle; 10m when absent or zero. A field of later versions of Velero. (docs/spec: BEY
            2.1)
        or_label_selectors: Label selectors; an object must match at least one to be saved. Not with
            labelSelector. A field of later versions of Velero.
        included_cluster_scoped_resources: Cluster-scoped resources that are saved, besides namespaces; when
            empty those that saved objects need, and all of them in a backup without any filter. Not with
            includedResources, excludedResources or includeClusterResources. A field of later versions.
        excluded_cluster_scoped_resources: Cluster-scoped resources that are left out.
        included_namespace_scoped_resources: Namespaced resources that are saved; all when empty. Not with
            includedResources, excludedResources or includeClusterResources. A field of later versions.
        excluded_namespace_scoped_resources: Namespaced resources that are left out.
        resource_policy: The ConfigMap with rules for volumes and for resources. A field of later versions of
            Velero. (docs/spec: BEY 4.7)
        uploader_config: How the content of volumes is saved. A field of later versions of Velero.
        item_operation_timeout: How long an operation that a plugin has started may take; 4h when absent or
            zero. A field of later versions of Velero. (docs/spec: BEY 4.3)
        snapshot_move_data: Whether the data of CSI snapshots is moved to the storage location. A field of
            later versions of Velero. (docs/spec: BEY 6.7)
        datamover: The program that moves the data; the server's own when empty or `velero`.
        backup_type: Full reads every file of the volumes, also those that look unchanged; Incremental, the
            default, reads what looks changed. A field of later versions of Velero.
    """

    included_namespaces: Annotated[list[str], NULLABLE] = []
    excluded_namespaces: Annotated[list[str], NULLABLE] = []
    included_resources: Annotated[list[str], NULLABLE] = []
    excluded_resources: Annotated[list[str], NULLABLE] = []
    label_selector: Annotated[LabelSelector | None, NULLABLE] = None
    snapshot_volumes: Annotated[bool | None, NULLABLE] = None
    ttl: Duration = Duration()
    include_cluster_resources: Annotated[bool | None, NULLABLE] = None
    hooks: BackupHooks = field(default_factory=BackupHooks)
    storage_location: str = ""
    volume_snapshot_locations: list[str] = []
    default_volumes_to_restic: bool | None = None
    ordered_resources: Annotated[dict[str, str], NULLABLE] = {}
    metadata: TemplateMetadata | None = None
    default_volumes_to_fs_backup: Annotated[bool | None, NULLABLE] = None
    csi_snapshot_timeout: Duration | None = None
    or_label_selectors: Annotated[list[LabelSelector], NULLABLE] = []
    included_cluster_scoped_resources: Annotated[list[str], NULLABLE] = []
    excluded_cluster_scoped_resources: Annotated[list[str], NULLABLE] = []
    included_namespace_scoped_resources: Annotated[list[str], NULLABLE] = []
    excluded_namespace_scoped_resources: Annotated[list[str], NULLABLE] = []
    resource_policy: Annotated[ConfigReference | None, NULLABLE] = None
    uploader_config: Annotated[BackupUploader | None, NULLABLE] = None
    snapshot_move_data: Annotated[bool | None, NULLABLE] = None
    datamover: str = ""
    backup_type: Annotated[str, Meta(extra={ENUM_KEY: BackupType})] = ""
    item_operation_timeout: Duration | None = None

    @property
    def saves_files_by_default(self) -> bool:
        """Whether pod volumes are saved from their files unless opted out, by either name of the setting."""
        return bool(self.default_volumes_to_fs_backup or self.default_volumes_to_restic)


class BackupProgress(Struct, rename="camel", kw_only=True):
    """The progress of a running backup. The numbers are estimates until the end.

    Attributes:
        total_items: Number of items to be saved; can grow while the backup runs.
        items_backed_up: Number of items processed so far.
    """

    total_items: int = 0
    items_backed_up: int = 0


class HookStatus(Struct, rename="camel", kw_only=True):
    """How the hooks of a backup or restore went.

    Attributes:
        hooks_attempted: Number of hooks that were run.
        hooks_failed: Number of hooks that failed.
    """

    hooks_attempted: int = 0
    hooks_failed: int = 0


class ResourceActivity(Struct, rename="camel", kw_only=True):
    """A resource whose objects a run is processing.

    Attributes:
        name: The plural name, with the group behind it.
        items_done: Number of objects processed so far.
        total_items: Number of objects known to be there.
        total_is_final: Whether that number is final.
    """

    name: str = ""
    items_done: int = 0
    total_items: int = 0
    total_is_final: bool = False


class RunActivity(Struct, rename="camel", kw_only=True):
    """What a running backup or restore is doing now, for display. Velero has no such field.

    Attributes:
        total_is_final: Whether progress.totalItems will not change any more.
        total_is_estimate: Whether progress.totalItems is an estimate; if it is neither final nor an estimate,
            it is a lower bound.
        resources: The resources whose objects are being processed, at most 10.
        hooks: The hooks that run now, each as `namespace/pod hook`, at most 10.
        waiting: What else the run waits for, at most 10.
        upload_bytes: Size of the files that are being uploaded.
        uploaded_bytes: How much of it was sent so far.
    """

    total_is_final: bool = False
    total_is_estimate: bool = False
    resources: list[ResourceActivity] = []
    hooks: list[str] = []
    waiting: list[str] = []
    upload_bytes: int = 0
    uploaded_bytes: int = 0


class BackupStatus(Struct, rename="camel", kw_only=True):
    """What the server reports about the backup.

    Attributes:
        version: Major version of the backup format. Deprecated: see formatVersion.
        format_version: Version of the backup format.
        expiration: When the backup may be deleted.
        phase: The phase of the backup.
        validation_errors: Why the spec was refused.
        failure_reason: Why the backup failed as a whole.
        start_timestamp: When the work began, by the server's clock.
        completion_timestamp: When the work ended; set before the files are uploaded.
        volume_snapshots_attempted: Number of volume snapshots tried.
        volume_snapshots_completed: Number of volume snapshots made.
        warnings: Number of warnings in the log.
        errors: Number of errors in the log.
        progress: The progress of a running backup.
        queue_position: The queue position of a Queued backup; 1 is next.
        csi_volume_snapshots_attempted: Number of CSI snapshots tried.
        csi_volume_snapshots_completed: Number of CSI snapshots made.
        backup_item_operations_attempted: Number of operations that plugins began.
        backup_item_operations_completed: Number of operations that succeeded.
        backup_item_operations_failed: Number of operations that failed.
        hook_status: How the hooks went.
        activity: What a running backup is doing now; absent once it has ended.
    """

    version: int = 0
    format_version: str = ""
    expiration: NullableTime = None
    phase: Annotated[str, Meta(extra={ENUM_KEY: BackupPhase})] = ""
    validation_errors: Annotated[list[str], NULLABLE] = []
    # Not in v1.6.3; an optional field that later versions have too (docs/spec: README, CTL 1.3).
    failure_reason: str = ""
    start_timestamp: NullableTime = None
    completion_timestamp: NullableTime = None
    volume_snapshots_attempted: int = 0
    volume_snapshots_completed: int = 0
    warnings: int = 0
    errors: int = 0
    progress: Annotated[BackupProgress | None, NULLABLE] = None
    # Fields of later versions of Velero. (docs/spec: BEY 2.1)
    queue_position: int = 0
    csi_volume_snapshots_attempted: int = 0
    csi_volume_snapshots_completed: int = 0
    backup_item_operations_attempted: int = 0
    backup_item_operations_completed: int = 0
    backup_item_operations_failed: int = 0
    hook_status: Annotated[HookStatus | None, NULLABLE] = None
    # Of this project alone. (docs/adr/062)
    activity: RunActivity | None = None


class Backup(Struct, rename="camel", kw_only=True):
    """A request to save cluster objects and volumes, and the record of what was saved."""

    kind: str = "Backup"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BackupSpec = field(default_factory=BackupSpec)
    status: BackupStatus = field(default_factory=BackupStatus)
