"""Operations that item actions of version 2 have started: storing them, and following their progress.

    InProgress ──progress: ended──────────> Completed, Failed
         └──────after the timeout: cancel─> Failed

They are kept in a file beside the backup or restore, which is all that is needed to go on with them after a
restart. (docs/spec: BEY 3.8, 4.3, 5.6)
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
import orjson
from msgspec.structs import replace

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.values.times import format_time, known_time
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.asynchronous import OperationProgress
from pinnace.plugins.logs import LogSink
from pinnace.plugins.protocols import ResourceIdentifier

TIMED_OUT: Final = "Asynchronous action timed out"
NO_PLUGIN: Final = "no plugin of this name is installed, so that its operation cannot be followed"
NOT_WANTED: Final = "cancelled: {reason}"

_AT_ONCE: Final = 8
"""How many operations are asked for at the same time."""

_MOST_CHARACTERS: Final = 4096
"""The longest text of a plugin that is stored."""


class OperationPhase(StrEnum):
    """The phase of an operation."""

    NEW = "New"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"


class ItemOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation.

    Attributes:
        action: the name of the action that started it.
        operation_id: the action's own id of it.
        item: the item that it was started for.
        post_items: to be read again when it has ended; only of backups.
        error: why it failed.
        created: when it was started; the timeout counts from here.
    """

    action: str
    operation_id: str
    item: ResourceIdentifier
    created: datetime
    post_items: Sequence[ResourceIdentifier] = ()
    phase: OperationPhase = OperationPhase.IN_PROGRESS
    error: str = ""
    progress: OperationProgress = msgspec.field(default_factory=OperationProgress)

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.phase in (OperationPhase.COMPLETED, OperationPhase.FAILED)

    def failed(self, error: str) -> "ItemOperation":
        """The operation with the phase Failed and this error."""
        return replace(self, phase=OperationPhase.FAILED, error=error[:_MOST_CHARACTERS])


class StartedOperations(msgspec.Struct, kw_only=True):
    """Collects the operations that the actions of one run start."""

    clock: Clock = SYSTEM_CLOCK
    operations: list[ItemOperation] = msgspec.field(default_factory=list)

    def add(
        self,
        action: str,
        operation_id: str,
        item: ResourceIdentifier,
        post_items: Sequence[ResourceIdentifier] = (),
    ) -> None:
        """Note an operation that has just been started."""
        self.operations.append(
            ItemOperation(
                action=action,
                operation_id=operation_id,
                item=item,
                created=self.clock.now(),
                post_items=tuple(post_items),
            )
        )


class OperationCounts(msgspec.Struct, frozen=True):
    """The numbers of operations in a status."""

    attempted: int
    completed: int
    failed: int

    @classmethod
    def of(cls, operations: Iterable[ItemOperation]) -> "OperationCounts":
        """The counts of these operations."""
        phases = [operation.phase for operation in operations]
        return cls(len(phases), phases.count(OperationPhase.COMPLETED), phases.count(OperationPhase.FAILED))

    @property
    def pending(self) -> int:
        """How many have not ended."""
        return self.attempted - self.completed - self.failed


AboutT = TypeVar("AboutT", Backup, Restore)
AboutT_contra = TypeVar("AboutT_contra", Backup, Restore, contravariant=True)


class AsynchronousAction(Protocol[AboutT_contra]):
    """An action of version 2 for backups or for restores."""

    @property
    def name(self) -> str:
        """The registered name."""
        ...

    async def progress(self, operation_id: str, about: AboutT_contra, /) -> OperationProgress:
        """How far an operation is."""
        ...

    async def cancel(self, operation_id: str, about: AboutT_contra, /) -> None:
        """Stop an operation."""
        ...


class Operators(Generic[AboutT]):
    """Asks the actions of one backup or restore for the progress of their operations.

    Args:
        about: the Backup or Restore that the operations belong to.
        actions: by name.
        log: receives the errors that actions raise.
    """

    def __init__(
        self, about: AboutT, actions: Mapping[str, AsynchronousAction[AboutT]], log: LogSink
    ) -> None:
        self._about: AboutT = about
        self._actions: Mapping[str, AsynchronousAction[AboutT]] = actions
        self._log = log
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def advanced(
        self, operations: Sequence[ItemOperation], now: datetime, timeout: timedelta
    ) -> list[ItemOperation]:
        """Cancel the operations that have taken longer than `timeout`, and return all as they are now."""

        async def one(operation: ItemOperation) -> ItemOperation:
            async with self._turns:
                return await self._advance(operation, now, timeout)

        return await _each(operations, one)

    async def cancelled(self, operations: Sequence[ItemOperation], reason: str) -> list[ItemOperation]:
        """Cancel the operations that have not ended, and return all of them."""

        async def one(operation: ItemOperation) -> ItemOperation:
            async with self._turns:
                await self._cancel(operation)
            return operation.failed(NOT_WANTED.format(reason=reason))

        return await _each(operations, one)

    async def _advance(self, operation: ItemOperation, now: datetime, timeout: timedelta) -> ItemOperation:
        action = self._actions.get(operation.action)
        if action is None:
            return operation.failed(f"{NO_PLUGIN}, plugin: {operation.action}")
        if now - operation.created >= timeout:
            await self._cancel(operation)
            return operation.failed(TIMED_OUT)
        try:
            progress = await action.progress(operation.operation_id, self._about)
        except Exception as error:  # noqa: BLE001 - foreign code; the operation itself may be well
            self._log.log(
                "warning",
                "The progress of an item operation could not be read; it is asked for again",
                error=error,
                operation=operation.operation_id,
                action=operation.action,
            )
            return operation
        operation = replace(operation, progress=progress, phase=OperationPhase.IN_PROGRESS)
        if not progress.completed:
            return operation
        if progress.error:
            return operation.failed(f"{progress.error}, plugin: {operation.action}")
        return replace(operation, phase=OperationPhase.COMPLETED)

    async def _cancel(self, operation: ItemOperation) -> None:
        action = self._actions.get(operation.action)
        if action is None:
            return
        try:
            await action.cancel(operation.operation_id, self._about)
        except Exception as error:  # noqa: BLE001 - foreign code; the operation is given up all the same
            self._log.log(
                "warning",
                "An item operation could not be cancelled and may still be running",
                error=error,
                operation=operation.operation_id,
                action=operation.action,
            )


async def _each(operations: Sequence[ItemOperation], one: Any) -> list[ItemOperation]:
    """The operations in their order, those that have not ended as `one` makes them."""
    async with asyncio.TaskGroup() as group:
        tasks = {
            number: group.create_task(one(operation))
            for number, operation in enumerate(operations)
            if not operation.has_ended
        }
    return [
        tasks[number].result() if number in tasks else operation
        for number, operation in enumerate(operations)
    ]


def digest_of(operations: Iterable[ItemOperation]) -> str:
    """A digest of what does not change in the operations: actions, ids, items and times of creation.

    The file of operations is in a location, which others may write to. It must not choose which operations
    are cancelled, or which objects of the cluster are read into the backup.
    """
    kept = [
        [
            operation.action,
            operation.operation_id,
            format_time(operation.created),
            *(_identifier(item) for item in (operation.item, *operation.post_items)),
        ]
        for operation in operations
    ]
    return hashlib.sha256(orjson.dumps(kept)).hexdigest()


def encode_operations(about: Backup | Restore, operations: Iterable[ItemOperation]) -> list[JSONObject]:
    """The content of `…-itemoperations.json.gz`, in the form of Velero. (docs/spec: BEY 3.8)"""
    return [_encoded(about, operation) for operation in operations]


def decode_operations(found: Iterable[JSONObject]) -> list[ItemOperation]:
    """The operations of a file, which is not trusted.

    Raises:
        ValueError: an operation has no id, action or start; the text says which.
    """
    return [_decoded(number, element) for number, element in enumerate(found)]


def _encoded(about: Backup | Restore, operation: ItemOperation) -> JSONObject:
    kind = "backup" if isinstance(about, Backup) else "restore"
    spec: JSONObject = {
        f"{kind}Name": about.metadata.name,
        f"{kind}UID": about.metadata.uid,
        f"{kind}ItemAction": operation.action,
        "resourceIdentifier": _identifier(operation.item),
        "operationID": operation.operation_id,
    }
    if kind == "backup":
        spec["postOperationItems"] = [_identifier(item) for item in operation.post_items] or None
    progress = operation.progress
    status: JSONObject = {
        "phase": str(operation.phase),
        "error": operation.error,
        "nCompleted": progress.done,
        "nTotal": progress.total,
        "operationUnits": progress.units[:_MOST_CHARACTERS],
        "description": progress.description[:_MOST_CHARACTERS],
        "created": format_time(operation.created),
        "started": format_time(progress.started) if progress.started else None,
        "updated": format_time(progress.updated) if progress.updated else None,
    }
    return {"spec": spec, "status": {name: value for name, value in status.items() if value}}


def _decoded(number: int, element: JSONObject) -> ItemOperation:
    spec, status = mapping(element, "spec"), mapping(element, "status")
    action = text(spec, "backupItemAction") or text(spec, "restoreItemAction")
    operation_id = text(spec, "operationID")
    created = _time(status, "created")
    if not action or not operation_id or created is None:
        raise ValueError(f"item operation {number} has no action, no id or no time of creation")
    known = set(OperationPhase)
    phase = text(status, "phase")
    return ItemOperation(
        action=action,
        operation_id=operation_id,
        item=_identified(mapping(spec, "resourceIdentifier")),
        created=created,
        post_items=[_identified(item) for item in objects(spec, "postOperationItems")],
        phase=OperationPhase(phase) if phase in known else OperationPhase.IN_PROGRESS,
        error=text(status, "error"),
        progress=OperationProgress(
            completed=phase in (OperationPhase.COMPLETED, OperationPhase.FAILED),
            done=_number(status, "nCompleted"),
            total=_number(status, "nTotal"),
            units=text(status, "operationUnits"),
            description=text(status, "description"),
            started=_time(status, "started"),
            updated=_time(status, "updated"),
        ),
    )


def _identifier(item: ResourceIdentifier) -> JSONObject:
    return {
        "Group": item.group,
        "Resource": item.resource,
        "Namespace": item.namespace,
        "Name": item.name,
    }


def _identified(found: JSONObject) -> ResourceIdentifier:
    return ResourceIdentifier(
        group=text(found, "Group"),
        resource=text(found, "Resource"),
        namespace=text(found, "Namespace"),
        name=text(found, "Name"),
    )


def _time(status: JSONObject, name: str) -> datetime | None:
    return known_time(text(status, name))


def _number(status: JSONObject, name: str) -> int:
    found = status.get(name)
    return found if isinstance(found, int) else 0
