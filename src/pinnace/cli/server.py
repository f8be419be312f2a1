"""`server`: the flags of the server process. (docs/spec: CLI 12.1, SRV 2)"""

from typing import Any

import click

from pinnace.cli.flags import (
    Boolean,
    Command,
    DurationFlag,
    Enum,
    KeyValueMap,
    StringSlice,
    boolean,
    flatten,
    merge_maps,
)

_LEVELS = ("trace", "debug", "info", "warning", "error", "fatal", "panic")


@click.command("server", cls=Command, short_help="Run the server.", hidden=True)
@click.option(
    "--log-level", type=Enum(*_LEVELS), default="info", show_default=True, help="Lowest level written."
)
@click.option(
    "--log-format", type=Enum("text", "json"), default="text", show_default=True, help="Form of log lines."
)
@click.option(
    "--metrics-address", default=":8085", show_default=True, help="Address of /metrics, /healthz, /readyz."
)
@click.option("--disable-controllers", type=StringSlice(), multiple=True, help="Controllers not to run.")
@click.option(
    "--restore-resource-priorities", type=StringSlice(), multiple=True, help="Kinds to restore first."
)
@click.option("--default-backup-storage-location", default="default", show_default=True,
              help="Location of backups that name none, when none is marked as default.")  # fmt: skip
@click.option("--backup-sync-period", type=DurationFlag(), default="1m0s", show_default=True,
              help="How often locations are looked through that do not say.")  # fmt: skip
@click.option("--store-validation-frequency", type=DurationFlag(), default="1m0s", show_default=True,
              help="How often locations are checked; 0 = once.")  # fmt: skip
@click.option("--default-volume-snapshot-locations", type=KeyValueMap(":"), multiple=True,
              help="Snapshot location of each provider that has several: provider:location,...")  # fmt: skip
@click.option("--terminating-resource-timeout", type=DurationFlag(), default="10m0s", show_default=True,
              help="How long a restore waits for namespaces and volumes that are going away.")  # fmt: skip
@click.option("--default-backup-ttl", type=DurationFlag(), default="720h0m0s", show_default=True,
              help="How long backups are kept that do not say.")  # fmt: skip
@boolean("--default-volumes-to-restic", help="Back up all pod volumes with restic unless opted out.")
@boolean("--restore-only", help="Deprecated: run only what restores need.")
@click.option("--leader-elect", type=Boolean(), default=True, metavar="",
              help="Work only while holding the Lease of this namespace (default true).")  # fmt: skip
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Run the server: the controllers of one namespace, until a signal."""
    from pinnace.cli import server_run

    flags["disable_controllers"] = flatten(flags["disable_controllers"])
    flags["restore_resource_priorities"] = flatten(flags["restore_resource_priorities"])
    flags["default_volume_snapshot_locations"] = merge_maps(flags["default_volume_snapshot_locations"])
    server_run.serve(ctx, flags)
