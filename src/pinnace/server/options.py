"""What flags and environment of the server say. (docs/spec: SRV 2)"""

import os
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Final

from pinnace.api.values.durations import Duration
from pinnace.backup.request import ServerDefaults
from pinnace.controllers.ports import MAIN_WORKERS
from pinnace.restore.engine import RestoreOptions
from pinnace.runtime.leader import LEASE_SECONDS
from pinnace.server.zone import local_zone

CLIENT_QPS: Final = 20.0
CLIENT_BURST: Final = 30
PLUGIN_DIRECTORY: Final = Path("/plugins")
GC_FREQUENCY: Final = Duration.hours(1)
RESTIC_TIMEOUT: Final = Duration.hours(4)
RESTIC_PRUNE_FREQUENCY: Final = Duration.hours(168)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What flags and environment of the server say. (docs/spec: SRV 2)

    Attributes:
        profiler_address: None: no profiler.
        client_qps: requests to the API server a second, in the long run; None: as many as it takes.
        client_burst: requests at once after a pause, if `client_qps` is set.
        backup_sync_period: for locations that name none; one minute if not positive.
        backup_workers, restore_workers: how many run at once.
        parallel_restores_into_namespace: let restores run at once that may write to the same namespace.
        plugin_directory: searched for executables; need not exist.
        restic_timeout: for all pod volumes of one backup or restore.
        gc_frequency: how often expired backups are looked for.
        restic_prune_frequency: of repositories that name none; a week if not positive.
        schedule_skip_immediately: skip once what is due of Schedules that do not say.
        zone: of the clock that schedules and the names of their backups follow.
        scratch: where big temporary files go; None: the system's temporary directory.
        disabled_controllers: names of controllers not to run; names of none are ignored.
        leader_election: work only while holding the Lease of the namespace.
        lease_duration: how long a Lease lasts that is not renewed; an outage of the API server that is
            shorter by a sixth does not end the server.
    """

    namespace: str
    metrics_address: str = ":8085"
    profiler_address: str | None = None
    log_level: str = "info"
    log_format: str = "text"
    scratch: Path | None = None
    features: frozenset[str] = frozenset()
    client_qps: float | None = None
    client_burst: int = CLIENT_BURST
    defaults: ServerDefaults = field(default_factory=ServerDefaults)
    restore: RestoreOptions = field(default_factory=RestoreOptions)
    store_validation_frequency: Duration = field(default_factory=lambda: Duration.minutes(1))
    backup_sync_period: Duration = field(default_factory=lambda: Duration.minutes(1))
    backup_workers: int = MAIN_WORKERS
    restore_workers: int = MAIN_WORKERS
    parallel_restores_into_namespace: bool = False
    plugin_directory: Path = PLUGIN_DIRECTORY
    restic_timeout: Duration = RESTIC_TIMEOUT
    gc_frequency: Duration = GC_FREQUENCY
    restic_prune_frequency: Duration = RESTIC_PRUNE_FREQUENCY
    schedule_skip_immediately: bool = False
    zone: tzinfo = field(default_factory=lambda: local_zone(os.environ))
    disabled_controllers: frozenset[str] = frozenset()
    leader_election: bool = True
    lease_duration: Duration = field(default_factory=lambda: Duration.seconds(LEASE_SECONDS))
