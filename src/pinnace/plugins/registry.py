"""All item actions of a process, in the order in which they run. (docs/spec: BKP 8.1, RST 15)

Built-in actions come first, sorted by name; then the given ones in the order in which they were registered.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from pinnace.plugins.protocols import BackupItemAction, RestoreItemAction


class DuplicateAction(ValueError):
    """Two actions of one kind have the same name; built-in names cannot be used again. (docs/spec: PLG 9)"""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_ActionT = TypeVar("_ActionT", bound=_Named)


class ActionRegistry:
    """The actions of backups and of restores.

    Raises:
        DuplicateAction: a name comes twice among the actions of one kind.
    """

    def __init__(
        self,
        *,
        builtin_backup_actions: Iterable[BackupItemAction] = (),
        builtin_restore_actions: Iterable[RestoreItemAction] = (),
        backup_actions: Sequence[BackupItemAction] = (),
        restore_actions: Sequence[RestoreItemAction] = (),
    ) -> None:
        self.backup_actions = _in_order("BackupItemAction", builtin_backup_actions, backup_actions)
        self.restore_actions = _in_order("RestoreItemAction", builtin_restore_actions, restore_actions)


def _in_order(kind: str, builtin: Iterable[_ActionT], given: Sequence[_ActionT]) -> tuple[_ActionT, ...]:
    actions = (*sorted(builtin, key=lambda action: action.name), *given)
    names: set[str] = set()
    for action in actions:
        if action.name in names:
            raise DuplicateAction(f"{kind} {action.name} is registered twice")
        names.add(action.name)
    return actions
