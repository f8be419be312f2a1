"""`server`: the flags of the server process. (docs/spec: CLI 12.1, SRV 2)"""

import click

from pinnace.cli.flags import (
    Boolean,
    Command,
    DurationFlag,
    Enum,
    Number,
    boolean,
    key_values,
    string_slice,
    takes,
)
from pinnace.cli.process import later_flags
from pinnace.cli.process.options import ServerFlags
from pinnace.cli.process.shared import monitoring_options
from pinnace.cli.structs import replace


@click.command("server", cls=Command, short_help="Run the server.", hidden=True)
@monitoring_options
@click.option("--profiler-address", default="localhost:6060", show_default=True,
              help="Address of /debug/pprof/; without a host this machine only; empty: none.")  # fmt: skip
@click.option("--client-qps", type=Number(), help="Cap on requests to the API server a second, 20 if only "
              "--client-burst is given. 0, or neither given: as many as it accepts.")  # fmt: skip
@click.option("--client-burst", type=Number(whole=True),
              help="How many of them at once after a pause, 30 if only --client-qps is given.")  # fmt: skip
@click.option("--plugin-dir", default="/plugins", show_default=True, help="Folder with plugin executables.")
@click.option("--backup-workers", "--concurrent-backups", type=Number(whole=True), default="1",
              show_default=True,
              help="How many backups run at once, never two of one namespace.")  # fmt: skip
@click.option("--restore-workers", type=Number(whole=True), default="1", show_default=True,
              help="How many restores run at once, never two into one namespace.")  # fmt: skip
@boolean("--allow-parallel-restores-into-namespace",
         help="Let restores that run at once write to the same namespace.")  # fmt: skip
@string_slice("--disable-controllers", may_be_empty=True, help="Controllers not to run.")
@string_slice("--restore-resource-priorities", may_be_empty=True,
              help="Kinds to restore first, and after a '-' those to restore last: a,b,-,c.")  # fmt: skip
@click.option("--default-backup-storage-location", default="default", show_default=True,
              help="Location of backups that name none, if no location is marked as default.")  # fmt: skip
@click.option("--backup-sync-period", type=DurationFlag(), default="1m0s", show_default=True,
              help="How often backups are looked for in locations that do not set it.")  # fmt: skip
@click.option("--store-validation-frequency", type=DurationFlag(), default="1m0s", show_default=True,
              help="How often locations are checked; 0 = once.")  # fmt: skip
@key_values("--default-volume-snapshot-locations", separator=":",
            help="Snapshot location of each provider that has several: provider:location,...")  # fmt: skip
@click.option("--restic-timeout", "--fs-backup-timeout", type=DurationFlag(), default="4h0m0s",
              show_default=True,
              help="How long all pod volumes of one backup or restore may take.")  # fmt: skip
@click.option("--default-restic-prune-frequency", "--default-repo-maintain-frequency", type=DurationFlag(),
              default="168h0m0s", show_default=True,
              help="How often restic repositories are pruned, if they do not set it.")  # fmt: skip
@click.option("--terminating-resource-timeout", type=DurationFlag(), default="10m0s", show_default=True,
              help="How long a restore waits for namespaces and volumes that are being deleted.")  # fmt: skip
@click.option("--resource-timeout", type=DurationFlag(), default="10m0s", show_default=True,
              help="How long a restore waits for the definitions of custom resources, and for additional "
              "items of actions.")  # fmt: skip
@click.option("--item-operation-sync-frequency", type=DurationFlag(), default="10s", show_default=True,
              help="How often operations of plugins are asked for their progress.")  # fmt: skip
@click.option("--default-item-operation-timeout", type=DurationFlag(), default="4h0m0s", show_default=True,
              help="How long an operation may take if its backup or restore does not set it.")  # fmt: skip
@click.option("--default-backup-ttl", type=DurationFlag(), default="720h0m0s", show_default=True,
              help="How long backups are kept that do not set it.")  # fmt: skip
@click.option("--garbage-collection-frequency", type=DurationFlag(), default="1h0m0s", show_default=True,
              help="How often expired backups are looked for.")  # fmt: skip
@click.option("--uploader-type", type=Enum("restic", "kopia"), default="restic", show_default=True,
              help="Program that saves pod volumes; each is restored by its own.")  # fmt: skip
@click.option("--backup-repository-configmap", default="",
              help="ConfigMap with the settings of new repositories of kopia.")  # fmt: skip
@click.option("--repo-maintenance-job-configmap", default="",
              help="ConfigMap with the settings of Jobs that maintain repositories; without it the server "
              "maintains them itself.")  # fmt: skip
@boolean("--schedule-skip-immediately",
         help="Leave out a backup that is due at once, for schedules that do not set it.")  # fmt: skip
@boolean(
    "--default-volumes-to-restic",
    "--default-volumes-to-fs-backup",
    help="Back up the files of all pod volumes unless opted out.",
)
@boolean("--default-snapshot-move-data",
         help="Move the data of CSI snapshots to the location, for backups that do not set it.")  # fmt: skip
@boolean("--restore-only", help="Deprecated: run only what restores need.")
@click.option("--leader-elect", type=Boolean(), default=True, metavar="",
              help="Work only while holding the Lease of this namespace (default true).")  # fmt: skip
@click.option("--leader-elect-lease-duration", type=DurationFlag(), default="1m0s", show_default=True,
              help="How long a Lease lasts without being renewed: how soon another server takes over from "
              "one that died, and how long an outage of the API server the leader survives.")  # fmt: skip
@later_flags.accepted(later_flags.OF_SERVER)
@takes(ServerFlags)
def command(ctx: click.Context, flags: ServerFlags) -> None:
    """Run the server: the controllers of one namespace, until a signal."""
    from pinnace.cli.process import server_run

    controllers, unknown = later_flags.known_controllers(flags.disable_controllers)
    flags = replace(flags, disable_controllers=controllers)
    server_run.serve(ctx, flags, [*later_flags.caveats(ctx), *unknown])
