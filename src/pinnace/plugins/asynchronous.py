"""The protocols of item actions of version 2, whose work may outlast the call, and of item block actions.

An action of version 2 may start an operation and return its id at once. The backup or restore goes on, and
its progress is asked for until the operation has ended. By then another instance of the action may be asked,
in another process, after a restart of the server: the id must be all that it needs. (docs/spec: BEY 4.3, 5.6,
9)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.protocols import (
    BackupItemAction,
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemAction,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationProgress:
    """How far an operation is.

    Attributes:
        completed: whether it has ended, well or not.
        error: why it failed; only looked at when it has ended.
        done, total, units: for instance 3 of 10 `Bytes`.
        description: for users who wait for it.
        started, updated: by the clock of the system that does the work.
    """

    completed: bool = False
    error: str = ""
    done: int = 0
    total: int = 0
    units: str = ""
    description: str = ""
    started: datetime | None = None
    updated: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupItemOutput:
    """The answer of a backup action of version 2.

    Attributes:
        item: to store.
        additional_items: backed up before it.
        operation_id: of the operation that it has started; empty if there is nothing to wait for.
        post_operation_items: read again when the operation has ended, and stored as they are then.
    """

    item: JSONObject
    additional_items: Sequence[ResourceIdentifier] = field(default=())
    operation_id: str = ""
    post_operation_items: Sequence[ResourceIdentifier] = field(default=())


@runtime_checkable
class BackupItemActionV2(Protocol):
    """Changes an item on its way into a backup, and may start an operation that outlasts the call."""

    @property
    def name(self) -> str:
        """The registered name, `<domain>/<action>`."""
        ...

    async def applies_to(self) -> ResourceSelector:
        """Asked once a backup, before anything is collected; an exception fails the backup."""
        ...

    async def execute(self, item: JSONObject, backup: Backup) -> BackupItemOutput:
        """Return the item to store. An exception fails this item, not the backup.

        Called again for items that an operation asked to be read again; starting an operation then is an
        error.
        """
        ...

    async def progress(self, operation_id: str, backup: Backup) -> OperationProgress:
        """How far an operation is. An exception is logged, and the operation is asked for again later."""
        ...

    async def cancel(self, operation_id: str, backup: Backup) -> None:
        """Stop an operation that takes too long or is no longer wanted."""
        ...


@runtime_checkable
class RestoreItemActionV2(RestoreItemAction, Protocol):
    """Changes an item on its way into a cluster, and may start an operation that outlasts the call."""

    async def progress(self, operation_id: str, restore: Restore) -> OperationProgress:
        """How far an operation is. An exception is logged, and the operation is asked for again later."""
        ...

    async def cancel(self, operation_id: str, restore: Restore) -> None:
        """Stop an operation that takes too long or is no longer wanted."""
        ...

    async def are_additional_items_ready(self, items: Sequence[ResourceIdentifier], restore: Restore) -> bool:
        """Whether the item may be created now; asked every second after `wait_for_additional_items`.

        Args:
            items: the additional items that are in the cluster, in the namespaces that they were restored to.
        """
        ...


@runtime_checkable
class ItemBlockAction(Protocol):
    """Names items that belong to an item, so that they are backed up together with it."""

    @property
    def name(self) -> str:
        """The registered name, `<domain>/<action>`."""
        ...

    async def applies_to(self) -> ResourceSelector:
        """Asked once a backup, before anything is collected; an exception fails the backup."""
        ...

    async def get_related_items(self, item: JSONObject, backup: Backup) -> Sequence[ResourceIdentifier]:
        """The items to back up together with this one. What the backup excludes stays excluded."""
        ...


AnyBackupItemAction = BackupItemAction | BackupItemActionV2
"""An action of either version; what `execute` answers tells which."""
