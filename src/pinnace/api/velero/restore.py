"""Restore: what to restore from a backup, and the outcome. (docs/spec: API 3, 16.1)"""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import (
    ALWAYS,
    CONTAINERS_KEY,
    ENUM_KEY,
    MIN_ITEMS_KEY,
    NULLABLE,
    REQUIRED,
    NullableTime,
)
from pinnace.api.meta import ConfigReference, LabelSelector, ObjectMeta
from pinnace.api.phases import RestorePhase
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import HookErrorMode, HookStatus, RunActivity


class ExistingResourcePolicy(StrEnum):
    """What is done with an object that exists in the cluster already. Empty counts as none.

    `recreate` is ours: what cannot be patched is deleted and created again. (docs/spec: BEY 5.1)
    """

    NONE = "none"
    UPDATE = "update"
    RECREATE = "recreate"


class ExistingVolumeDataPolicy(StrEnum):
    """What is done with the data of a claim that exists already. Empty counts as none.

    A field of later versions of Velero. (docs/spec: AFT 6)
    """

    NONE = "none"
    FULL = "full"
    INCREMENTAL = "incremental"


class ExecRestoreHook(Struct, rename="camel", kw_only=True):
    """A command to run in a container of a restored pod. No shell is involved.

    Attributes:
        container: The container to run in; the pod's first one when empty.
        command: The command and its arguments.
        on_error: Continue or Fail; Continue when empty.
        exec_timeout: How long the command may take; 30s when zero.
        wait_timeout: How long to wait for the container to run; without limit when zero.
        wait_for_ready: Whether to wait until the container is ready, not only running. A field of later
            versions of Velero.
    """

    container: str = ""
    command: Annotated[list[str], REQUIRED, Meta(extra={MIN_ITEMS_KEY: 1})] = []
    on_error: Annotated[str, Meta(extra={ENUM_KEY: HookErrorMode})] = ""
    exec_timeout: Duration = Duration()
    wait_timeout: Duration = Duration()
    wait_for_ready: Annotated[bool | None, NULLABLE] = None


class InitRestoreHook(Struct, rename="camel", kw_only=True):
    """Init containers to add to a restored pod.

    Attributes:
        init_containers: Containers to put before the pod's own init containers, in order.
        timeout: Kept for compatibility; it has no effect.
    """

    # Whole core/v1 Containers, validated by the API server's own schema; kept as JSON, so no field is lost.
    init_containers: Annotated[list[dict[str, Any]], ALWAYS, Meta(extra={CONTAINERS_KEY: True})] = []
    timeout: Duration = Duration()


class RestoreResourceHook(Struct, rename="camel", kw_only=True):
    """One hook of a list of hooks.

    Attributes:
        exec: A command to run once the container runs.
        init: Init containers to add.
    """

    exec: ExecRestoreHook | None = None
    init: InitRestoreHook | None = None


class RestoreResourceHookSpec(Struct, rename="camel", kw_only=True):
    """Hooks for the restored pods that match.

    Attributes:
        name: Name of this group of hooks, shown in the log.
        included_namespaces: Namespaces the hooks apply to; all when empty.
        excluded_namespaces: Namespaces the hooks do not apply to.
        included_resources: Resources the hooks apply to; all when empty. Only pods ever run hooks.
        excluded_resources: Resources the hooks do not apply to.
        label_selector: Labels that a pod must have.
        post_hooks: The hooks, in order.
    """

    name: Annotated[str, REQUIRED] = ""
    included_namespaces: Annotated[list[str], NULLABLE] = []
    excluded_namespaces: Annotated[list[str], NULLABLE] = []
    included_resources: Annotated[list[str], NULLABLE] = []
    excluded_resources: Annotated[list[str], NULLABLE] = []
    label_selector: Annotated[LabelSelector | None, NULLABLE] = None
    post_hooks: list[RestoreResourceHook] = []


class RestoreHooks(Struct, rename="camel", kw_only=True):
    """What to run in restored pods.

    Attributes:
        resources: Groups of hooks; all groups that match a pod run.
    """

    resources: list[RestoreResourceHookSpec] = []


class RestoreStatusSpec(Struct, rename="camel", kw_only=True):
    """Which resources get back their status.

    Attributes:
        included_resources: Resources whose status is restored; all when empty.
        excluded_resources: Resources whose status is not restored.
    """

    included_resources: Annotated[list[str], NULLABLE] = []
    excluded_resources: Annotated[list[str], NULLABLE] = []


class RestoreUploader(Struct, rename="camel", kw_only=True):
    """How the content of volumes is restored.

    Attributes:
        write_sparse_files: Whether long runs of zeros become holes in the files.
        parallel_files_download: How many files of a volume are written at once; the program's default
            when 0.
        delete_extra_files: Whether files that the backup does not have are removed from volumes that exist;
            only with existingVolumeDataPolicy. A field of later versions of Velero.
    """

    write_sparse_files: Annotated[bool | None, NULLABLE] = None
    parallel_files_download: int = 0
    delete_extra_files: Annotated[bool | None, NULLABLE] = None


class RestoreSpec(Struct, rename="camel", kw_only=True):
    """The backup to restore from, what to restore, and how.

    Attributes:
        backup_name: The backup to restore from; may be empty when scheduleName is given.
        schedule_name: Restore from the newest completed backup of this schedule.
        included_namespaces: Namespaces in the backup whose objects are restored; all when empty.
        excluded_namespaces: Namespaces in the backup that are left out.
        included_resources: Resources that are restored; all when empty.
        excluded_resources: Resources that are left out.
        namespace_mapping: Namespace in the backup to the namespace to restore into.
        label_selector: Labels that an object must have to be restored.
        restore_pvs: Whether volumes are restored from snapshots; absent means where it is possible.
        preserve_node_ports: Whether Services keep their node ports; absent means no.
        include_cluster_resources: Whether cluster-scoped objects are restored; absent means only when all
            namespaces are, or when a restored object needs them.
        hooks: What to run in restored pods.
        or_label_selectors: Label selectors; an object must match at least one to be restored. Not with
            labelSelector. A field of later versions of Velero.
        existing_resource_policy: What is done with an object that exists already: none leaves it alone,
            update patches it to the version in the backup, recreate also deletes and creates again what
            cannot be patched.
        restore_status: Which resources get back their status; no resource when absent.
        resource_modifier: The ConfigMap with rules that change objects before they are created.
        item_operation_timeout: How long an operation that a plugin has started may take; 4h when absent or
            zero. A field of later versions of Velero. (docs/spec: BEY 5.6)
        uploader_config: How the content of volumes is restored. A field of later versions of Velero.
        resource_policy: The ConfigMap with filters by namespace and kind. A field of later versions of
            Velero.
        skip_default_resource_modifier: Leaves out the rules that the server applies to restores without a
            resourceModifier. A field of later versions of Velero.
        existing_volume_data_policy: What is done with the data of claims that exist already: none leaves it,
            full writes all files of the backup over it, incremental those whose size or time differs. A
            field of later versions of Velero.
    """

    backup_name: Annotated[str, ALWAYS] = ""
    schedule_name: str = ""
    included_namespaces: Annotated[list[str], NULLABLE] = []
    excluded_namespaces: Annotated[list[str], NULLABLE] = []
    included_resources: Annotated[list[str], NULLABLE] = []
    excluded_resources: Annotated[list[str], NULLABLE] = []
    namespace_mapping: dict[str, str] = {}
    label_selector: Annotated[LabelSelector | None, NULLABLE] = None
    restore_pvs: Annotated[bool | None, NULLABLE] = field(name="restorePVs", default=None)
    preserve_node_ports: Annotated[bool | None, NULLABLE] = None
    include_cluster_resources: Annotated[bool | None, NULLABLE] = None
    hooks: RestoreHooks = field(default_factory=RestoreHooks)
    or_label_selectors: Annotated[list[LabelSelector], NULLABLE] = []
    existing_resource_policy: Annotated[str, NULLABLE] = ""
    restore_status: Annotated[RestoreStatusSpec | None, NULLABLE] = None
    resource_modifier: Annotated[ConfigReference | None, NULLABLE] = None
    item_operation_timeout: Duration | None = None
    uploader_config: Annotated[RestoreUploader | None, NULLABLE] = None
    resource_policy: Annotated[ConfigReference | None, NULLABLE] = None
    skip_default_resource_modifier: Annotated[bool | None, NULLABLE] = None
    existing_volume_data_policy: Annotated[str, NULLABLE] = ""

    @property
    def is_in_place(self) -> bool:
        """Whether data is restored into claims that exist."""
        return self.existing_volume_data_policy not in ("", ExistingVolumeDataPolicy.NONE)


class RestoreProgress(Struct, rename="camel", kw_only=True):
    """The progress of a running restore.

    Attributes:
        total_items: Number of items to be restored; can grow while the restore runs.
        items_restored: Number of items processed so far.
    """

    total_items: int = 0
    items_restored: int = 0


class RestoreStatus(Struct, rename="camel", kw_only=True):
    """What the server reports about the restore.

    Attributes:
        phase: The phase of the restore.
        validation_errors: Why the spec was refused.
        warnings: Number of warnings in the results.
        errors: Number of errors in the results.
        failure_reason: Why the restore failed as a whole.
        start_timestamp: When the work began, by the server's clock.
        completion_timestamp: When the work ended, by the server's clock.
        progress: The progress of a running restore.
        restore_item_operations_attempted: Number of operations that plugins began.
        restore_item_operations_completed: Number of operations that succeeded.
        restore_item_operations_failed: Number of operations that failed.
        hook_status: How the hooks went.
        activity: What a running restore is doing now; absent once it has ended.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: RestorePhase})] = ""
    validation_errors: Annotated[list[str], NULLABLE] = []
    warnings: int = 0
    errors: int = 0
    failure_reason: str = ""
    start_timestamp: NullableTime = None
    completion_timestamp: NullableTime = None
    progress: Annotated[RestoreProgress | None, NULLABLE] = None
    # Fields of later versions of Velero. (docs/spec: BEY 2.1)
    restore_item_operations_attempted: int = 0
    restore_item_operations_completed: int = 0
    restore_item_operations_failed: int = 0
    hook_status: Annotated[HookStatus | None, NULLABLE] = None
    # Of this project alone. (docs/adr/062)
    activity: RunActivity | None = None


class Restore(Struct, rename="camel", kw_only=True):
    """A request to restore objects and volumes from a backup, and its outcome."""

    kind: str = "Restore"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: RestoreSpec = field(default_factory=RestoreSpec)
    status: RestoreStatus = field(default_factory=RestoreStatus)
