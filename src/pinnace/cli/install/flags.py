"""The flags of `install` as given. Pure; `options` has what they mean, once they are checked."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pinnace.cli.output.printing import OutputOptions

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration


class InstallFlags(OutputOptions):
    """The flags of `install`."""

    provider: str
    bucket: str
    prefix: str
    secret_file: str
    no_secret: bool
    no_default_backup_location: bool
    image: str
    pod_annotations: Mapping[str, str]
    sa_annotations: Mapping[str, str]
    velero_pod_cpu_request: str
    velero_pod_mem_request: str
    velero_pod_cpu_limit: str
    velero_pod_mem_limit: str
    restic_pod_cpu_request: str
    restic_pod_mem_request: str
    restic_pod_cpu_limit: str
    restic_pod_mem_limit: str
    backup_location_config: Mapping[str, str]
    snapshot_location_config: Mapping[str, str]
    use_volume_snapshots: bool
    plugins: Sequence[str]
    use_restic: bool
    default_volumes_to_restic: bool
    uploader_type: str | None
    default_restic_prune_frequency: "Duration"
    restic_password_file: str
    restore_only: bool
    garbage_collection_frequency: "Duration"
    pod_volume_operation_timeout: "Duration"
    schedule_skip_immediately: bool
    default_snapshot_move_data: bool
    concurrent_backups: int
    service_account_name: str
    pod_labels: Mapping[str, str]
    privileged_node_agent: bool
    kubelet_root_dir: str
    server_priority_class_name: str
    node_agent_priority_class_name: str
    node_agent_configmap: str
    backup_repository_configmap: str
    repo_maintenance_job_configmap: str
    minimal_rbac: bool
    non_admin: bool
    apply: bool
    wait: bool
    dry_run: bool
    crds_only: bool
    crds_version: str
    cacert: str
    features: str
