"""All item actions of an operation, in execution order. (docs/spec: BKP 8.1, RST 15, PLG 2)

Built-in actions come first, sorted by name; then the given ones in the order of registration.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from pinnace.plugins.asynchronous import (
    AnyBackupItemAction,
    BackupItemActionV2,
    ItemBlockAction,
    RestoreItemActionV2,
)
from pinnace.plugins.errors import DuplicatePlugin
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.protocols import DeleteItemAction, RestoreItemAction


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_ActionT = TypeVar("_ActionT", bound=_Named)


class ActionRegistry:
    """The actions of backups, restores and deletions.

    Raises:
        DuplicatePlugin: a name comes twice among the actions of one kind; built-in ones cannot be used again.
    """

    def __init__(
        self,
        *,
        builtin_backup_actions: Iterable[AnyBackupItemAction] = (),
        builtin_restore_actions: Iterable[RestoreItemAction] = (),
        backup_actions: Sequence[AnyBackupItemAction] = (),
        restore_actions: Sequence[RestoreItemAction] = (),
        delete_actions: Sequence[DeleteItemAction] = (),
        block_actions: Sequence[ItemBlockAction] = (),
    ) -> None:
        kinds = PluginKind
        self.backup_actions: tuple[AnyBackupItemAction, ...] = _in_order(
            kinds.BACKUP_ITEM_ACTION, builtin_backup_actions, backup_actions
        )
        self.restore_actions = _in_order(kinds.RESTORE_ITEM_ACTION, builtin_restore_actions, restore_actions)
        self.delete_actions = _in_order(kinds.DELETE_ITEM_ACTION, (), delete_actions)
        self.block_actions = _in_order(kinds.ITEM_BLOCK_ACTION, (), block_actions)

    @property
    def ids(self) -> list[PluginId]:
        """Kind and name of every action, in execution order; for `plugin get`."""
        return [
            *(PluginId(_backup_kind(action), action.name) for action in self.backup_actions),
            *(PluginId(_restore_kind(action), action.name) for action in self.restore_actions),
            *(PluginId(PluginKind.DELETE_ITEM_ACTION, action.name) for action in self.delete_actions),
            *(PluginId(PluginKind.ITEM_BLOCK_ACTION, action.name) for action in self.block_actions),
        ]


def _backup_kind(action: AnyBackupItemAction) -> PluginKind:
    is_v2 = isinstance(action, BackupItemActionV2)
    return PluginKind.BACKUP_ITEM_ACTION_V2 if is_v2 else PluginKind.BACKUP_ITEM_ACTION


def _restore_kind(action: RestoreItemAction) -> PluginKind:
    is_v2 = isinstance(action, RestoreItemActionV2)
    return PluginKind.RESTORE_ITEM_ACTION_V2 if is_v2 else PluginKind.RESTORE_ITEM_ACTION


def _in_order(
    kind: PluginKind, builtin: Iterable[_ActionT], given: Sequence[_ActionT]
) -> tuple[_ActionT, ...]:
    actions = (*sorted(builtin, key=lambda action: action.name), *given)
    names: set[str] = set()
    for action in actions:
        if action.name in names:
            raise DuplicatePlugin(f"{kind} {action.name} is registered twice")
        names.add(action.name)
    return actions
