"""The work of `server`: turns flags into options, and errors into exit codes. (docs/spec: SRV 4-6)"""

from collections.abc import Sequence
from pathlib import Path

import click

from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import ITEM_OPERATION_TIMEOUT
from pinnace.backup.request import ServerDefaults
from pinnace.cli.connect import need_no_location, settings_of
from pinnace.cli.errors import InvalidInput
from pinnace.cli.process.server import ServerFlags
from pinnace.cli.process.shared import (
    at_least_one,
    check_address,
    process_errors,
    run_process,
    scratch_folder,
)
from pinnace.cli.settings import Settings
from pinnace.controllers.registry import NAMES, NOT_FOR_RESTORES
from pinnace.controllers.shared.options import MAINTENANCE_FREQUENCY
from pinnace.csi.snapshots import FEATURE
from pinnace.operations.waiting import POLL_SECONDS
from pinnace.restore.request import RestoreSettings
from pinnace.restore.selection.order import read_priorities
from pinnace.runtime.logfields import get_logger
from pinnace.server.app import run_server
from pinnace.server.checks import StartupError
from pinnace.server.monitoring.logging import configure_logging
from pinnace.server.options import CLIENT_BURST, CLIENT_QPS, ServerOptions
from pinnace.store_access.user_agent import user_agent

log = get_logger(__name__)

OF_VELERO = (
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
"""The names in the message, those of Velero 1.6 in its order; more are accepted. (docs/spec: SRV 6)"""

SHORTEST_LEASE = Duration.seconds(5)
"""The shortest lease: several attempts to renew it must fit in."""


def serve(ctx: click.Context, flags: ServerFlags, warnings: Sequence[str] = ()) -> None:
    """Run the server. Raises CommandError when it cannot start or ends badly.

    Args:
        warnings: warnings about the flags, to log first.
    """
    settings = settings_of(ctx)
    need_no_location(settings, "server")
    options = server_options(settings, flags)
    configure_logging(options.log_level, options.log_format)
    if flags.default_snapshot_move_data and FEATURE not in settings.features:
        warnings = [*warnings, f"--default-snapshot-move-data has no effect without --features {FEATURE}"]
    for warning in warnings:
        log.warning(warning)
    with process_errors(StartupError):
        agent = user_agent("velero-server")
        run_process(settings, lambda config: run_server(config, options, user_agent=agent))


def server_options(settings: Settings, flags: ServerFlags) -> ServerOptions:
    """Check the flags and turn them into options. Raises InvalidInput."""
    disabled = set(flags.disable_controllers)
    for name in flags.disable_controllers:
        if name not in NAMES:
            raise InvalidInput(
                f"Invalid value for --disable-controllers flag provided: {name}. "
                f"Valid values are: {','.join(OF_VELERO)}"
            )
    if flags.restore_only:
        disabled |= NOT_FOR_RESTORES
    check_address("--metrics-address", flags.metrics_address)
    if flags.profiler_address:
        check_address("--profiler-address", flags.profiler_address)
    qps, burst = client_cap(flags.client_qps, flags.client_burst)
    try:
        first, last = read_priorities(flags.restore_resource_priorities)
    except ValueError as error:
        raise InvalidInput(f"--restore-resource-priorities {error}") from error
    prune_frequency = flags.default_restic_prune_frequency
    operation_timeout = flags.default_item_operation_timeout or ITEM_OPERATION_TIMEOUT
    return ServerOptions(
        namespace=settings.namespace,
        metrics_address=flags.metrics_address,
        profiler_address=flags.profiler_address or None,
        log_level=flags.log_level,
        log_format=flags.log_format,
        scratch=scratch_folder(),
        features=settings.features,
        client_qps=qps,
        client_burst=burst,
        defaults=ServerDefaults(
            backup_ttl=flags.default_backup_ttl,
            storage_location=flags.default_backup_storage_location,
            volumes_to_fs_backup=flags.default_volumes_to_restic,
            snapshot_locations=dict(flags.default_volume_snapshot_locations),
            snapshot_move_data=flags.default_snapshot_move_data and FEATURE in settings.features,
            item_operation_timeout=operation_timeout,
            volume_policies=flags.global_backup_volume_policies_configmap,
        ),
        restore=RestoreSettings(
            priorities=first,
            last=last,
            terminating_timeout_seconds=flags.terminating_resource_timeout.total_seconds(),
            resource_timeout_seconds=flags.resource_timeout.total_seconds(),
            features=settings.features,
            operation_timeout=operation_timeout,
            default_modifiers=flags.default_resource_modifier_configmap,
        ),
        backup_sync_period=flags.backup_sync_period,
        store_validation_frequency=flags.store_validation_frequency,
        backup_workers=at_least_one("--backup-workers", flags.backup_workers),
        restore_workers=at_least_one("--restore-workers", flags.restore_workers),
        resume_restores=flags.resume_restores,
        parallel_restores_into_namespace=flags.allow_parallel_restores_into_namespace,
        plugin_directory=Path(flags.plugin_dir),
        pod_volume_timeout=flags.restic_timeout,
        operation_poll_seconds=flags.item_operation_sync_frequency.total_seconds() or POLL_SECONDS,
        operation_timeout=operation_timeout,
        gc_frequency=_positive("--garbage-collection-frequency", flags.garbage_collection_frequency),
        schedule_skip_immediately=flags.schedule_skip_immediately,
        uploader=flags.uploader_type,
        repository_config_map=flags.backup_repository_configmap,
        maintenance_config_map=flags.repo_maintenance_job_configmap,
        maintenance_frequency=prune_frequency if prune_frequency > Duration() else MAINTENANCE_FREQUENCY,
        disabled_controllers=frozenset(disabled),
        leader_election=flags.leader_elect,
        lease_duration=_lease_duration(flags.leader_elect_lease_duration),
    )


def _lease_duration(given: Duration) -> Duration:
    if given < SHORTEST_LEASE:
        raise InvalidInput(f"--leader-elect-lease-duration must be at least {SHORTEST_LEASE}")
    return given


def client_cap(qps: float | None, burst: int | None) -> tuple[float | None, int]:
    """The cap on requests a second, None for none, and the burst. Raises InvalidInput.

    Without either flag, or with 0, there is no cap: the client adapts to what the API server accepts.
    (docs/spec: SRV 2, SRV-001)
    """
    if qps is not None and qps < 0:
        raise InvalidInput("client-qps must be positive")
    if burst is not None and burst <= 0:
        raise InvalidInput("client-burst must be positive")
    if qps is None and burst is not None:
        qps = CLIENT_QPS
    return qps or None, CLIENT_BURST if burst is None else burst


def _positive(flag: str, duration: Duration) -> Duration:
    if duration <= Duration():
        raise InvalidInput(f"{flag} must be positive")
    return duration
