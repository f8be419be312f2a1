"""`server`: the flags of the server process. (docs/spec: CLI 12.1, SRV 2)"""

from collections.abc import Mapping, Sequence

import click

from pinnace.api.values.durations import Duration
from pinnace.cli.declaring.commands import command, loaded
from pinnace.cli.declaring.fields import Section, duration, flag, key_values, string_slice, switch, text
from pinnace.cli.declaring.types import Enum, Number
from pinnace.cli.declaring.values import ADDRESS, FOLDER, LOCATION, RESOURCES, TTL, Value
from pinnace.cli.process import later_flags
from pinnace.cli.process.shared import MonitoringOptions
from pinnace.cli.structs import replace


class ServerFlags(MonitoringOptions):
    """The flags of `server`."""

    profiler_address: str = text(
        default="localhost:6060",
        value=ADDRESS,
        help="Address of /debug/pprof/; without a host this machine only; empty: none.",
    )
    client_qps: float | None = flag(
        type=Number(),
        help="Cap on requests to the API server a second, 20 if only --client-burst is given. 0, or neither"
        " given: as many as it accepts.",
    )
    client_burst: int | None = flag(
        type=Number(whole=True),
        help="How many of them at once after a pause, 30 if only --client-qps is given.",
    )
    plugin_dir: str = text(default="/plugins", value=FOLDER, help="Folder with plugin executables.")
    backup_workers: int = flag(
        "--backup-workers",
        "--concurrent-backups",
        type=Number(whole=True),
        default="1",
        help="How many backups run at once, never two of one namespace.",
    )
    restore_workers: int = flag(
        type=Number(whole=True),
        default="1",
        help="How many restores run at once, never two into one namespace.",
    )
    allow_parallel_restores_into_namespace: bool = switch(
        help="Let restores that run at once write to the same namespace."
    )
    resume_restores: bool = switch(
        help="Continue restores that a stopped or killed server left, instead of failing them."
    )
    disable_controllers: Sequence[str] = string_slice(
        may_be_empty=True, value=Value("CONTROLLER,..."), help="Controllers not to run."
    )
    restore_resource_priorities: Sequence[str] = string_slice(
        may_be_empty=True,
        value=RESOURCES,
        help="Kinds to restore first, and after a '-' those to restore last: a,b,-,c.",
    )
    default_backup_storage_location: str = text(
        default="default",
        value=LOCATION,
        help="Location of backups that name none, if no location is marked as default.",
    )
    backup_sync_period: Duration = duration(
        default="1m0s", help="How often backups are looked for in locations that do not set it."
    )
    store_validation_frequency: Duration = duration(
        default="1m0s", help="How often locations are checked; 0 = once."
    )
    default_volume_snapshot_locations: Mapping[str, str] = key_values(
        separator=":",
        value=Value("PROVIDER:LOCATION,..."),
        help="Snapshot location of each provider that has several: provider:location,...",
    )
    restic_timeout: Duration = duration(
        "--restic-timeout",
        "--fs-backup-timeout",
        default="4h0m0s",
        help="How long all pod volumes of one backup or restore may take.",
    )
    default_restic_prune_frequency: Duration = duration(
        "--default-restic-prune-frequency",
        "--default-repo-maintain-frequency",
        default="168h0m0s",
        help="How often restic repositories are pruned, if they do not set it.",
    )
    terminating_resource_timeout: Duration = duration(
        default="10m0s", help="How long a restore waits for namespaces and volumes that are being deleted."
    )
    resource_timeout: Duration = duration(
        default="10m0s",
        help="How long a restore waits for the definitions of custom resources, and for additional items of"
        " actions; and a backup for volumes of pods that it canceled at the timeout.",
    )
    item_operation_sync_frequency: Duration = duration(
        default="10s", help="How often operations of plugins are asked for their progress."
    )
    default_item_operation_timeout: Duration = duration(
        default="4h0m0s", help="How long an operation may take if its backup or restore does not set it."
    )
    default_backup_ttl: Duration = duration(
        default="720h0m0s", value=TTL, help="How long backups are kept that do not set it."
    )
    garbage_collection_frequency: Duration = duration(
        default="1h0m0s", help="How often expired backups are looked for."
    )
    uploader_type: str = flag(
        type=Enum("restic", "kopia"),
        default="restic",
        help="Program that saves pod volumes; each is restored by its own.",
    )
    backup_repository_configmap: str = text(help="ConfigMap with the settings of new repositories of kopia.")
    repo_maintenance_job_configmap: str = text(
        help="ConfigMap with the settings of Jobs that maintain repositories; without it the server"
        " maintains them itself."
    )
    schedule_skip_immediately: bool = switch(
        help="Leave out a backup that is due at once, for schedules that do not set it."
    )
    default_volumes_to_restic: bool = switch(
        "--default-volumes-to-restic",
        "--default-volumes-to-fs-backup",
        section=Section.VOLUMES,
        help="Back up the files of all pod volumes unless opted out.",
    )
    default_snapshot_move_data: bool = switch(
        help="Move the data of CSI snapshots to the location, for backups that do not set it."
    )
    global_backup_volume_policies_configmap: str = text(
        section=Section.VOLUMES,
        help="ConfigMap of the server's namespace with rules for the volumes of every backup; those of the"
        " backup itself come first.",
    )
    default_resource_modifier_configmap: str = text(
        help="ConfigMap of the server's namespace with rules that change the objects of each restore that"
        " names none.",
    )
    restore_only: bool = switch(help="Deprecated: run only what restores need.")
    leader_elect: bool = switch(
        default=True,
        help="Work only while holding the Lease of this namespace (default true).",
    )
    leader_elect_lease_duration: Duration = duration(
        default="1m0s",
        help="How long a Lease lasts without being renewed: how soon another server takes over from one that"
        " died, and how long an outage of the API server the leader survives.",
    )


@command(
    "server",
    ServerFlags,
    short_help="Run the server (the Deployment does).",
    hidden=True,
    also=later_flags.accepted(later_flags.OF_SERVER),
    examples=(
        ("Run the server of a namespace", "pinnace server -n velero"),
        (
            "Two backups at once, and more details in the log",
            "pinnace server --backup-workers 2 --log-level debug",
        ),
        ("Without the collection of expired backups", "pinnace server --disable-controllers gc"),
    ),
)
def server(ctx: click.Context, flags: ServerFlags) -> None:
    """Run the server: the controllers of one namespace, until a signal."""
    controllers, unknown = later_flags.known_controllers(flags.disable_controllers)
    flags = replace(flags, disable_controllers=controllers)
    loaded("pinnace.cli.process.server_run:serve")(ctx, flags, [*later_flags.caveats(ctx), *unknown])
