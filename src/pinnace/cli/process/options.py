"""The options of the processes: `server` and `node-agent`. Pure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pinnace.cli.structs import Struct

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration


class ServerFlags(Struct):
    """The flags of `server`."""

    log_level: str
    log_format: str
    metrics_address: str
    profiler_address: str
    client_qps: float | None
    client_burst: int | None
    plugin_dir: str
    backup_workers: int
    restore_workers: int
    allow_parallel_restores_into_namespace: bool
    disable_controllers: Sequence[str]
    restore_resource_priorities: Sequence[str]
    default_backup_storage_location: str
    backup_sync_period: "Duration"
    store_validation_frequency: "Duration"
    default_volume_snapshot_locations: Mapping[str, str]
    restic_timeout: "Duration"
    default_restic_prune_frequency: "Duration"
    terminating_resource_timeout: "Duration"
    resource_timeout: "Duration"
    default_backup_ttl: "Duration"
    garbage_collection_frequency: "Duration"
    item_operation_sync_frequency: "Duration"
    default_item_operation_timeout: "Duration"
    schedule_skip_immediately: bool
    uploader_type: str
    backup_repository_configmap: str
    repo_maintenance_job_configmap: str
    default_volumes_to_restic: bool
    default_snapshot_move_data: bool
    restore_only: bool
    leader_elect: bool
    leader_elect_lease_duration: "Duration"


class RepoMaintenanceFlags(Struct):
    """The flags of `repo-maintenance`."""

    log_level: str
    log_format: str
    repository: str


class NodeAgentFlags(Struct):
    """`node-agent` and `restic server`; only the first has `names`."""

    log_level: str
    log_format: str
    metrics_address: str
    host_pods: str
    backup_workers: int
    restore_workers: int
    node_agent_configmap: str
    names: Sequence[str] = ()
