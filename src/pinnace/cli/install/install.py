"""`install`. (docs/spec: CLI 11)"""

from collections.abc import Mapping, Sequence
from typing import Final

from pinnace.api.values.durations import Duration
from pinnace.cli.common.refused import OF_INSTALL, refused
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, comma_list, duration, flag, key_values, switch, text
from pinnace.cli.declaring.types import Enum, Number
from pinnace.cli.declaring.values import FEATURES, FILE, FOLDER, PROVIDER, Value, formats
from pinnace.cli.output.printing import OutputOptions
from pinnace.installing.options import KUBELET_ROOT

CPU: Final = Value("CPU", like="500m, 2")
CONFIG_MAP: Final = Value("CONFIGMAP")
MEMORY: Final = Value("MEMORY", like="512Mi, 2Gi")


class InstallFlags(OutputOptions):
    """Install custom resource definitions, namespace, access rights, a backup location and the server.

    Resources that exist already are left as they are. With --apply they are changed to what the flags say and
    keep all other fields; this is the way to move to another version.
    """

    provider: str = text(
        section=Section.WHERE,
        value=PROVIDER,
        help="Provider of the default locations: aws, or filesystem for a folder.",
    )
    bucket: str = text(section=Section.WHERE, help="Bucket of the default backup location.")
    prefix: str = text(section=Section.WHERE, help="Path inside the bucket.")
    secret_file: str = text(value=FILE, help="File with the credentials of the default backup location.")
    no_secret: bool = switch(help="Confirm that there is no secret file.")
    no_default_backup_location: bool = switch(help="Make no backup location.")
    image: str = text(value=Value("IMAGE"), help="Image of the server; without it no server is deployed.")
    pod_annotations: Mapping[str, str] = key_values(help="Annotations for the server's pod.")
    pod_labels: Mapping[str, str] = key_values(help="Labels for the pods of the server and the node agent.")
    service_account_annotations: Mapping[str, str] = key_values(
        "--sa-annotations", help="Annotations for the ServiceAccount."
    )
    service_account: str = text(
        "--service-account-name",
        value=Value("SERVICE_ACCOUNT"),
        help="Existing ServiceAccount of the pods, with its rights; none is created.",
    )
    server_priority_class: str = text(
        "--server-priority-class-name",
        value=Value("PRIORITY_CLASS"),
        help="PriorityClass of the server's pod.",
    )
    node_agent_priority_class: str = text(
        "--node-agent-priority-class-name",
        value=Value("PRIORITY_CLASS"),
        help="PriorityClass of the node agent's pods.",
    )
    node_agent_config_map: str = text(
        "--node-agent-configmap", value=CONFIG_MAP, help="ConfigMap with settings of the node agents."
    )
    repository_config_map: str = text(
        "--backup-repository-configmap",
        value=CONFIG_MAP,
        help="ConfigMap with settings of new repositories of kopia.",
    )
    maintenance_config_map: str = text(
        "--repo-maintenance-job-configmap",
        value=CONFIG_MAP,
        help="ConfigMap with settings of the Jobs that then maintain repositories.",
    )
    velero_pod_cpu_request: str = text(default="500m", value=CPU, help="'0' for none.")
    velero_pod_mem_request: str = text(default="128Mi", value=MEMORY, help="'0' for none.")
    velero_pod_cpu_limit: str = text(default="1000m", value=CPU, help="'0' for none.")
    velero_pod_mem_limit: str = text(default="512Mi", value=MEMORY, help="'0' for none.")
    restic_pod_cpu_request: str = text(
        "--restic-pod-cpu-request",
        "--node-agent-pod-cpu-request",
        default="500m",
        value=CPU,
        help="'0' for none.",
    )
    restic_pod_mem_request: str = text(
        "--restic-pod-mem-request",
        "--node-agent-pod-mem-request",
        default="512Mi",
        value=MEMORY,
        help="'0' for none.",
    )
    restic_pod_cpu_limit: str = text(
        "--restic-pod-cpu-limit",
        "--node-agent-pod-cpu-limit",
        default="1000m",
        value=CPU,
        help="'0' for none.",
    )
    restic_pod_mem_limit: str = text(
        "--restic-pod-mem-limit",
        "--node-agent-pod-mem-limit",
        default="1Gi",
        value=MEMORY,
        help="'0' for none.",
    )
    backup_location_config: Mapping[str, str] = key_values(
        help="Config of the backup location: region=...,s3Url=..., or path=/folder with filesystem."
    )
    snapshot_location_config: Mapping[str, str] = key_values(help="Config of the snapshot location.")
    snapshot_location: bool = switch(
        "--use-volume-snapshots",
        default=True,
        help="Make a snapshot location (=false: none).",
    )
    plugins: Sequence[str] = comma_list(
        value=Value("IMAGE,..."), help="Images with plugins, comma-separated."
    )
    node_agent: bool = switch(
        "--use-restic", "--use-node-agent", help="Deploy the node agent, which backs up pod volumes."
    )
    privileged_node_agent: bool = switch(
        help="Run the node agent privileged, as SELinux or block volumes may need."
    )
    kubelet_root: str = text(
        "--kubelet-root-dir",
        default=KUBELET_ROOT,
        value=FOLDER,
        help="Directory of the kubelet on each node.",
    )
    default_volumes_to_fs_backup: bool = switch(
        "--default-volumes-to-restic",
        "--default-volumes-to-fs-backup",
        section=Section.VOLUMES,
        help="Back up all pod volumes from their files unless opted out.",
    )
    uploader: str | None = flag(
        "--uploader-type",
        type=Enum("kopia", "restic"),
        default=None,
        help="Program that saves pod volumes. [default: kopia; with --apply as it was]",
    )
    maintenance_frequency: Duration = duration(
        "--default-restic-prune-frequency",
        "--default-repo-maintain-frequency",
        default="0s",
        help="How often restic repositories are pruned; 0 leaves it to the server.",
        show_default=False,
    )
    restic_password_file: str = text(
        "--restic-password-file",
        "--repo-password-file",
        value=FILE,
        help="File with the password of the repositories of volumes; a new server makes a random one.",
    )
    pod_volume_operation_timeout: Duration = duration(
        default="0s",
        help="How long the pod volumes of one run may take; 0 leaves it to the server.",
        show_default=False,
    )
    garbage_collection_frequency: Duration = duration(
        default="0s",
        help="How often expired backups are looked for; 0 leaves it to the server.",
        show_default=False,
    )
    concurrent_backups: int = flag(
        type=Number(whole=True, least=0),
        default=0,
        help="How many backups run at once; 0 leaves it to the server.",
    )
    schedule_skip_immediately: bool = switch(
        help="Leave out a backup that is due at once, for schedules that do not set it."
    )
    default_snapshot_move_data: bool = switch(
        help="Move the data of CSI snapshots to the location, for backups that do not set it."
    )
    default_modifiers: str = text(
        "--default-resource-modifier-configmap",
        value=CONFIG_MAP,
        help="ConfigMap with rules that change the objects of each restore that names none.",
    )
    restore_only: bool = switch(help="Deprecated: let the server run only what restores need.")
    minimal_rights: bool = switch(
        "--minimal-rbac", help="Give the server the rights it uses instead of cluster-admin."
    )
    non_admin: bool = switch(
        help="Let tenants back up their own namespaces: definitions, roles and, with --image, the"
        " controller. With --features=NonAdmin the server itself is the controller"
    )
    apply: bool = switch(help="Bring what exists in line with these flags, instead of leaving it as it is.")
    wait: bool = switch(
        before="show_labels",
        section=Section.OUTPUT,
        help="Wait until the server, and the node agent, are ready.",
    )
    dry_run: bool = switch(
        before="show_labels", section=Section.OUTPUT, help="Only print (with -o); send nothing."
    )
    crds_only: bool = switch(help="Only the custom resource definitions.")
    crds_version: str = text(
        default="v1", value=Value("VERSION", words=("v1",)), help="Accepted for scripts; v1 is always used."
    )
    cacert: str = text(value=FILE, help="CA bundle for the backup location.")
    features: str = text(value=FEATURES, help="Feature flags for the server, comma-separated.")
    output_format: str | None = flag(
        "-o",
        "--output",
        section=Section.OUTPUT,
        value=formats("json", "yaml"),
        help="Print the objects: json or yaml.",
    )


install = lazy_command(
    "install",
    InstallFlags,
    "pinnace.cli.install.installing:install",
    short_help="Install the server and its resources in a cluster.",
    also=refused(OF_INSTALL),
    examples=(
        (
            "A server that keeps backups in a bucket",
            "pinnace install --provider aws --bucket backups --secret-file ./credentials "
            "--backup-location-config region=eu-central-1 --snapshot-location-config region=eu-central-1 "
            "--image registry.example.com/pinnace:v1 --wait",
        ),
        (
            "With the node agent, for the files of pod volumes",
            "pinnace install --provider filesystem --backup-location-config path=/srv/backups "
            "--image registry.example.com/pinnace:v1 --use-node-agent",
        ),
        ("Only the definitions, as YAML", "pinnace install --crds-only --dry-run -o yaml"),
        ("Move to another version", "pinnace install --apply --image registry.example.com/pinnace:v2 --wait"),
    ),
)
