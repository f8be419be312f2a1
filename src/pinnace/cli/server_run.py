"""What `server` does: flags to options, errors to exit codes. (docs/spec: SRV 4-6)"""

import asyncio
import os
from pathlib import Path
from typing import Any

import click

from pinnace.backup.gc_thresholds import raised_gc_thresholds
from pinnace.backup.request import ServerDefaults
from pinnace.cli.connect import need_no_location, settings_of, user_agent
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.settings import Settings
from pinnace.controllers import backup, backup_deletion, gc, schedule
from pinnace.kube.config import load_config
from pinnace.kube.errors import KubeError
from pinnace.restore.engine import RestoreOptions
from pinnace.restore.order import DEFAULT_PRIORITIES
from pinnace.runtime.errors import RuntimeFailure
from pinnace.server.app import ServerOptions, run_server
from pinnace.server.checks import StartupError
from pinnace.server.http import parse_address
from pinnace.server.logging import configure_logging

DISABLEABLE = (
    "backup",
    "backup-deletion",
    "backup-sync",
    "download-request",
    "gc",
    "restic-repo",
    "restore",
    "schedule",
    "server-status-request",
)
"""What may stay out, in the order of the message. (docs/spec: SRV 6)"""

RESTORE_ONLY = frozenset({backup.NAME, backup_deletion.NAME, gc.NAME, schedule.NAME})


def serve(ctx: click.Context, flags: dict[str, Any]) -> None:
    """Run the server. Raises CommandError when it cannot start or ends badly."""
    settings = settings_of(ctx)
    need_no_location(settings, "server")
    options = server_options(settings, flags)
    configure_logging(options.log_level, options.log_format)
    try:
        config = load_config(settings.kubeconfig, settings.kubecontext)
        with raised_gc_thresholds():
            asyncio.run(run_server(config, options, user_agent=user_agent("velero-server")))
    except (StartupError, KubeError, RuntimeFailure, OSError) as exc:
        raise CommandError(str(exc)) from exc


def server_options(settings: Settings, flags: dict[str, Any]) -> ServerOptions:
    """Check the flags and turn them into options. Raises InvalidInput."""
    disabled = set(flags["disable_controllers"])
    for name in flags["disable_controllers"]:
        if name not in DISABLEABLE:
            raise InvalidInput(
                f"Invalid value for --disable-controllers flag provided: {name}. "
                f"Valid values are: {','.join(DISABLEABLE)}"
            )
    if flags["restore_only"]:
        disabled |= RESTORE_ONLY
    try:
        parse_address(flags["metrics_address"])
    except ValueError as exc:
        raise InvalidInput(f"--metrics-address: {exc}") from exc
    return ServerOptions(
        namespace=settings.namespace,
        metrics_address=flags["metrics_address"],
        log_level=flags["log_level"],
        log_format=flags["log_format"],
        scratch=Path(scratch) if (scratch := os.environ.get("VELERO_SCRATCH_DIR")) else None,
        features=settings.features,
        defaults=ServerDefaults(
            backup_ttl=flags["default_backup_ttl"],
            storage_location=flags["default_backup_storage_location"],
            volumes_to_restic=flags["default_volumes_to_restic"],
            snapshot_locations=flags["default_volume_snapshot_locations"],
        ),
        restore=RestoreOptions(
            priorities=tuple(flags["restore_resource_priorities"]) or DEFAULT_PRIORITIES,
            terminating_timeout_seconds=flags["terminating_resource_timeout"].total_seconds(),
            features=settings.features,
        ),
        backup_sync_period=flags["backup_sync_period"],
        store_validation_frequency=flags["store_validation_frequency"],
        disabled_controllers=frozenset(disabled),
        leader_election=flags["leader_elect"],
    )
