"""Which actions apply to which items. Selectors are resolved once for each backup. (docs/spec: BKP 8.1)"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from pinnace.backup.errors import FatalBackupError
from pinnace.kube.discovery import Discovery
from pinnace.plugins.asynchronous import AnyBackupItemAction, ItemBlockAction
from pinnace.plugins.protocols import PreparedBackupItemAction, ResourceSelector, SelectiveBackupItemAction
from pinnace.plugins.resolved import ResolvedAction, without_items

Action = ResolvedAction[AnyBackupItemAction]
BlockAction = ResolvedAction[ItemBlockAction]


class _Action(Protocol):
    @property
    def name(self) -> str: ...

    async def applies_to(self) -> ResourceSelector: ...


_ActionT = TypeVar("_ActionT", bound=_Action)


class ActionTable:
    """The actions of a backup in order, looked up by resource; and its item block actions."""

    def __init__(self, actions: Sequence[Action], blocks: Sequence[BlockAction] = ()) -> None:
        self._actions = actions
        self._blocks = blocks
        self._by_resource: dict[str, tuple[Action, ...]] = {}

    def blocks_for(self, group_resource: str) -> Sequence[BlockAction]:
        """The item block actions that may apply to items of a resource."""
        return [block for block in self._blocks if block.resources.matches(group_resource)]

    def for_resource(self, group_resource: str) -> tuple[Action, ...]:
        """The actions that may apply to items of a resource, in the order in which they run."""
        found = self._by_resource.get(group_resource)
        if found is None:
            found = tuple(action for action in self._actions if action.resources.matches(group_resource))
            self._by_resource[group_resource] = found
        return found

    def ignoring(self, group_resource: str) -> tuple[SelectiveBackupItemAction, ...] | None:
        """The actions of `for_resource`, if all of them can tell which items they do not need; else None.

        The result is None, too, if an item block action wants the resource.
        """
        if self.blocks_for(group_resource):
            return None
        actions = [resolved.action for resolved in self.for_resource(group_resource)]
        selective = [action for action in actions if isinstance(action, SelectiveBackupItemAction)]
        return tuple(selective) if len(selective) == len(actions) else None

    def without_items(self, discovery: Discovery) -> Iterator[str]:
        """The warnings for kinds that actions of plugins name and that do not exist."""
        yield from without_items(self._actions, discovery)
        yield from without_items(self._blocks, discovery)

    async def prepare(self, group_resource: str) -> None:
        """Let the actions of `for_resource` read what they need before they get an item."""
        for resolved in self.for_resource(group_resource):
            if isinstance(resolved.action, PreparedBackupItemAction):
                await resolved.action.prepare()


async def resolve_actions(
    actions: Sequence[AnyBackupItemAction],
    canonical: Callable[[str], str],
    blocks: Sequence[ItemBlockAction] = (),
) -> ActionTable:
    """Ask every action for its selector.

    Raises:
        FatalBackupError: an action did not answer, or with a selector that is not valid.
    """
    return ActionTable(
        [await _resolve(action, canonical) for action in actions],
        [await _resolve(block, canonical) for block in blocks],
    )


async def _resolve(action: _ActionT, canonical: Callable[[str], str]) -> ResolvedAction[_ActionT]:
    try:
        wanted = await action.applies_to()
    except Exception as error:  # an action is foreign code: whatever it raises ends the backup, with its name
        raise FatalBackupError(f"error getting the selector of action {action.name}: {error}") from error
    try:
        return ResolvedAction.of(action, wanted, canonical)
    except ValueError as error:
        raise FatalBackupError(f"invalid label selector of action {action.name}: {error}") from error
