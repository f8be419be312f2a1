"""The run context of a backup, restore or deletion, whether a server, a command or a Python program runs it.

`pinnace.operations` makes it once for each run; engines and collaborators take it as a whole. What only
backups or only restores need is in their own runners.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.objects import JSONObject
from pinnace.archive.runlog import Hide, Noticed, RunLog
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.plugins.session import PluginSession
from pinnace.runs.activity import Activity
from pinnace.runs.progress import ProgressSink
from pinnace.runtime.worker_slots import WorkerSlot
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.backup_writing import KeepKey
from pinnace.storage.patience import Patience
from pinnace.storage.writer_claim import WriterClaim

_logger = logging.getLogger(__name__)


class ReopenedStore(msgspec.Struct, frozen=True):
    """The store of a run, opened again at its end with fresh credentials.

    Attributes:
        store: the store of the location as it is now; whoever reopened it closes it.
        moved: says from where to where the location was moved since the run began; empty if it was not.
    """

    store: BackupStore
    moved: str = ""


StoreSource = Callable[[], Awaitable[ReopenedStore]]
"""Opens the store of a run again; may raise StorageError or KubeError."""


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the log of a run is kept. (docs/spec: BKP 3.5)

    Attributes:
        level: the lowest level written.
        fmt: `text` or `json`.
        echo: gets every line too; a server's standard output.
        hide: changes what is stored, not what is echoed; for logs that tenants read.
        hide_results: the same for the results of a restore.
        noticed: called with the severity and the code of each warning and error; for metrics.
    """

    level: str = "info"
    fmt: str = "text"
    echo: TextIO | None = None
    hide: Hide | None = None
    hide_results: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    noticed: Noticed | None = None


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of one run.

    Attributes:
        client, discovery: the cluster, and what it serves at the start of the run.
        namespace: the server's; without a server the one with the settings of the command.
        store: the location, opened; its owner closes it.
        reopen_store: opens it again for the upload at the end of the run: credentials can have changed, and
            the location can have been moved. None uses `store`.
        plugins: those of this run, opened.
        features: enabled feature flags.
        workdir: an existing directory with room for the backup, compressed and not.
        log: how the run's log is kept.
        progress: told at most once a second how far the run is.
        clock: the time of day, for timestamps.
        activity: what the run is doing now.
        caveats: warnings that the run begins with, such as fields of the spec that are not known.
        worker_slot: the worker of the server, given back while the run only waits for the store.
        read: the Backup as the API server keeps it: its fields of other versions are stored too.
        patience: with a store that is away when the results of the run are stored; None for none.
        claim: on the name of the backup, if the caller holds it during the whole run; None takes it to store.
        keep_key: keeps the key of an encrypted backup that will wait for operations; None where the process
            itself waits, and so has the key.
    """

    client: KubeClient
    discovery: Discovery
    store: BackupStore
    plugins: PluginSession
    workdir: Path
    namespace: str = "velero"
    reopen_store: StoreSource | None = None
    features: Collection[str] = ()
    log: LogOptions = msgspec.field(default_factory=LogOptions)
    progress: ProgressSink | None = None
    clock: Clock = SYSTEM_CLOCK
    caveats: Sequence[str] = ()
    activity: Activity = msgspec.field(default_factory=Activity)
    worker_slot: WorkerSlot = msgspec.field(default_factory=WorkerSlot)
    read: JSONObject = msgspec.field(default_factory=dict)
    patience: Patience | None = None
    claim: WriterClaim | None = None
    keep_key: KeepKey | None = None

    def open_log(self, path: Path, **fields: str) -> RunLog:
        """Begin the log of the run in a new file; plugins write to it, too.

        Args:
            fields: put on every line.

        Raises:
            OSError: the file cannot be made.
        """
        options = self.log
        log = RunLog(
            path,
            fields=fields,
            level=options.level,
            fmt=options.fmt,
            echo=options.echo,
            clock=self.clock,
        )
        if options.hide is not None:
            log.hide_in_file(options.hide)
        if options.noticed is not None:
            log.count_codes_by(options.noticed)
        self.plugins.log_to(log)
        return log

    async def store_at_end(self) -> ReopenedStore:
        """The store for what is uploaded at the end of the run. Pass it to `close_reopened` after that.

        Raises:
            StorageError, KubeError: it cannot be opened again.
        """
        return ReopenedStore(self.store) if self.reopen_store is None else await self.reopen_store()

    async def close_reopened(self, store: BackupStore) -> None:
        """Close the store of an upload that is done; a failure changes nothing of what it holds."""
        if store is self.store:
            return  # its owner closes it
        try:
            await store.close()
        except Exception:  # whatever it was: how the run ended is decided and stored
            _logger.warning("A backup storage location could not be closed after a run", exc_info=True)

    async def publish(self, total_items: int, items_done: int) -> None:
        """Tell how far the run is. Raises KubeError."""
        if self.progress is not None:
            await self.progress(total_items, items_done)
