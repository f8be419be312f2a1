"""The scope that all controllers of a server get: cluster, metrics, work directory, logging."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, Required, TextIO, TypedDict, Unpack

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.plugins.installed import NO_PLUGINS, InstalledPlugins
from pinnace.plugins.session import PluginSession
from pinnace.runs.activity import Activity
from pinnace.runs.context import LogOptions, RunContext, StoreSource
from pinnace.runs.progress import ProgressSink
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.worker_slots import WorkerSlot
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.backup_writing import KeepKey
from pinnace.storage.newest import Link
from pinnace.storage.patience import Patience

_logger = get_logger(__name__)

MAIN_WORKERS = 1
"""The workers of most controllers; for backups and restores it is the default. (docs/spec: CTL 2.1)"""


class ControllerMetrics(Protocol):
    """The counters of backups, their deletions, restores and schedules. (docs/spec: SRV 8.1)"""

    def backup_attempted(self, schedule: str) -> None: ...

    def backup_finished(self, schedule: str, phase: str) -> None: ...

    def backup_tarball_size(self, schedule: str, size_bytes: int) -> None: ...

    def backup_duration(self, schedule: str, duration_seconds: float) -> None: ...

    def backup_last_successful(self, schedule: str, unix_seconds: float) -> None: ...

    def keep_last_successful(self, schedules: Collection[str], *, since: float) -> None: ...

    def backups_existing(self, count: int) -> None: ...

    def backup_deletion_attempted(self, schedule: str) -> None: ...

    def backup_deletion_finished(self, schedule: str, *, succeeded: bool) -> None: ...

    def restore_attempted(self, schedule: str) -> None: ...

    def noticed(self, run: str, severity: str, code: Code) -> None: ...

    def restore_finished(self, schedule: str, phase: str) -> None: ...

    def restores_existing(self, count: int) -> None: ...

    def volume_snapshots(self, schedule: str, *, attempted: int, completed: int) -> None: ...

    def backup_items(self, schedule: str, *, items: int, errors: int, warnings: int) -> None: ...

    def csi_snapshots(self, schedule: str, backup: str, *, attempted: int, completed: int) -> None: ...

    def newest_backup(
        self,
        schedule: str,
        phase: str,
        *,
        exists: bool,
        items: int | None = None,
        errors: int | None = None,
        size_bytes: int | None = None,
    ) -> None: ...

    def keep_schedules(self, schedules: Collection[str], backups: Collection[tuple[str, str]]) -> None: ...

    def location_status(self, location: str, *, available: bool) -> None: ...

    def signed_backups(self, location: str, newest: Sequence[Link], vanished: int) -> None: ...

    def location_gone(self, location: str) -> None: ...

    def repository_maintained(self, repository: str, seconds: float, *, succeeded: bool) -> None: ...

    def schedule_gone(self, schedule: str) -> None: ...

    def schedule_overdue(self, schedule: str, seconds: float) -> None: ...

    def schedule_interval(self, schedule: str, seconds: float) -> None: ...

    def schedule_runs(
        self, schedule: str, *, expected: bool, missed: bool, succeed_by: float | None
    ) -> None: ...

    def sink_seen(self, sink: str) -> None: ...

    def sink_gone(self, sink: str) -> None: ...

    def messages_sent(self, sink: str, count: int, *, lost: int) -> None: ...

    def repository_gone(self, repository: str) -> None: ...

    def backup_refused(self, schedule: str) -> None: ...

    def schedule_seen(self, schedule: str, phase: str) -> None: ...

    def backup_verified(self, schedule: str, unix_seconds: float, *, sound: bool) -> None: ...

    def backup_not_verified(self, schedule: str) -> None: ...

    def verification_gone(self, schedule: str) -> None: ...

    def retention_passed(self, schedule: str, *, readable: bool, waiting: int) -> None: ...

    def retention_requested(self, schedule: str) -> None: ...

    def retention_gone(self, schedule: str) -> None: ...


class RunParticulars(TypedDict, total=False):
    """The members of a `RunContext` that differ from run to run."""

    discovery: Required[Discovery]
    store: Required[BackupStore]
    plugins: Required[PluginSession]
    reopen_store: StoreSource
    log: LogOptions
    progress: ProgressSink
    activity: Activity
    caveats: Sequence[str]
    worker_slot: WorkerSlot
    keep_key: KeepKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The environment and the settings that all controllers of one server share.

    Attributes:
        client: the cluster.
        namespace: the server's; objects elsewhere are not touched. (docs/spec: API 1)
        workdir: an existing directory for spool files.
        features: feature flags that are on.
        log_level, log_format, log_echo: of the logs of backups and restores.
        plugins: the plugins beside the built-in actions.
        leads: whether no other server can be working, so that an InProgress object which this server does
            not own is an orphan.
        without_status: resources whose served definition has no status subresource, as `patch_status` found.
    """

    client: KubeClient
    namespace: str
    metrics: ControllerMetrics
    workdir: Path
    features: frozenset[str] = frozenset()
    log_level: str = "info"
    log_format: str = "text"
    log_echo: TextIO | None = None
    clock: Clock = SYSTEM_CLOCK
    plugins: InstalledPlugins = NO_PLUGINS
    leads: bool = False
    without_status: set[APIResource] = field(default_factory=set)

    def run_context(self, **particulars: Unpack[RunParticulars]) -> RunContext:
        """The context of one run of this server."""
        activity = particulars.setdefault("activity", Activity())
        return RunContext(
            client=self.client,
            namespace=self.namespace,
            features=self.features,
            workdir=self.workdir,
            clock=self.clock,
            patience=Patience(_logger.warning, waiting=activity.waiting),
            **particulars,
        )

    def log_options(self, run: str) -> LogOptions:
        """How the log of a run is kept; `run` is backup or restore."""
        return LogOptions(
            level=self.log_level,
            fmt=self.log_format,
            echo=self.log_echo,
            noticed=partial(self.metrics.noticed, run),
        )

    @property
    def all_versions(self) -> bool:
        """Whether all served versions of an API group count, not only the preferred. (docs/spec: SRV 5)"""
        return "EnableAPIGroupVersions" in self.features
