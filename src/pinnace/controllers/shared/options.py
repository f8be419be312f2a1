"""The settings of a server's controllers, as its flags give them. (docs/spec: SRV 2)"""

from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Final

from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import ITEM_OPERATION_TIMEOUT
from pinnace.api.velero.pod_volume import RESTIC
from pinnace.backup.request import ServerDefaults
from pinnace.controllers.shared.scope import MAIN_WORKERS
from pinnace.operations.waiting import POLL_SECONDS
from pinnace.restore.request import RestoreSettings

GC_FREQUENCY: Final = Duration.hours(1)
POD_VOLUME_TIMEOUT: Final = Duration.hours(4)
MAINTENANCE_FREQUENCY: Final = Duration.hours(168)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """The settings of the controllers, from flags and environment of the server. (docs/spec: SRV 2)

    Attributes:
        defaults: the values of fields that a Backup leaves out.
        restore: how restores are carried out.
        store_validation_frequency: how often a location without a frequency of its own is validated.
        backup_sync_period: how often a location without a period of its own is synced; one minute if
            not positive.
        backup_workers, restore_workers: how many run at once.
        resume_restores: continue interrupted restores without being asked.
        parallel_restores_into_namespace: let restores run at once that may write to the same namespace.
        pod_volume_timeout: for all pod volumes of one backup or restore.
        gc_frequency: how often expired backups are looked for.
        maintenance_frequency: how often a repository without a frequency of its own is pruned; a week
            if not positive.
        repository_config_map: name of the ConfigMap with the settings of new repositories; empty for none.
        maintenance_config_map: name of the ConfigMap with the settings of maintenance Jobs; empty for
            maintenance in the server.
        schedule_skip_immediately: skip the run that is due once, for Schedules without `skipImmediately`.
        uploader: the program that saves pod volumes; each is restored by its own.
        zone: the time zone of schedules and of the names of their backups.
        operation_poll_seconds: how often the progress of item operations is asked for.
        operation_timeout: the limit for item operations of an object without a timeout of its own.
    """

    defaults: ServerDefaults = field(default_factory=ServerDefaults)
    restore: RestoreSettings = field(default_factory=RestoreSettings)
    store_validation_frequency: Duration = field(default_factory=lambda: Duration.minutes(1))
    backup_sync_period: Duration = field(default_factory=lambda: Duration.minutes(1))
    backup_workers: int = MAIN_WORKERS
    restore_workers: int = MAIN_WORKERS
    resume_restores: bool = False
    parallel_restores_into_namespace: bool = False
    pod_volume_timeout: Duration = POD_VOLUME_TIMEOUT
    gc_frequency: Duration = GC_FREQUENCY
    maintenance_frequency: Duration = MAINTENANCE_FREQUENCY
    repository_config_map: str = ""
    maintenance_config_map: str = ""
    schedule_skip_immediately: bool = False
    uploader: str = RESTIC
    zone: tzinfo = UTC
    operation_poll_seconds: float = POLL_SECONDS
    operation_timeout: Duration = ITEM_OPERATION_TIMEOUT
