"""Decides which actions apply to an item. Selectors are resolved once a backup. (docs/spec: BKP 8.1)"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, Self, TypeVar

from pinnace.backup.errors import FatalBackupError
from pinnace.kube.discovery import Discovery
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.asynchronous import AnyBackupItemAction, ItemBlockAction
from pinnace.plugins.protocols import PreparedBackupItemAction, ResourceSelector, SelectiveBackupItemAction
from pinnace.plugins.resolved import ActionTable, ResolvedAction

Action = ResolvedAction[AnyBackupItemAction]
BlockAction = ResolvedAction[ItemBlockAction]


class _Action(Protocol):
    @property
    def name(self) -> str: ...

    async def applies_to(self) -> ResourceSelector: ...


_ActionT = TypeVar("_ActionT", bound=_Action)


class BackupActions(ActionTable[AnyBackupItemAction]):
    """The actions of a backup, and its item block actions."""

    def __init__(self, actions: Sequence[Action], blocks: Sequence[BlockAction] = ()) -> None:
        super().__init__(actions)
        self._blocks = ActionTable(blocks)

    @classmethod
    async def load(
        cls,
        actions: Sequence[AnyBackupItemAction],
        canonical: Callable[[str], str],
        blocks: Sequence[ItemBlockAction] = (),
    ) -> Self:
        """Ask every action once which items it applies to; they run in the given order.

        Raises:
            FatalBackupError: an action did not answer, or with a selector that is not valid.
        """
        return cls(
            [await _resolve(action, canonical) for action in actions],
            [await _resolve(block, canonical) for block in blocks],
        )

    def blocks_for(self, group_resource: str) -> Sequence[BlockAction]:
        """The item block actions that may apply to items of a resource."""
        return self._blocks.for_resource(group_resource)

    def ignoring(self, group_resource: str) -> tuple[SelectiveBackupItemAction, ...] | None:
        """The actions of `for_resource`, if all of them can tell which items they do not need; else None.

        The result is None, too, if an item block action wants the resource.
        """
        if self.blocks_for(group_resource):
            return None
        actions = [resolved.action for resolved in self.for_resource(group_resource)]
        selective = [action for action in actions if isinstance(action, SelectiveBackupItemAction)]
        return tuple(selective) if len(selective) == len(actions) else None

    def without_items(
        self, discovery: Discovery, *, is_known: Callable[[str], bool] = lambda _: False
    ) -> Iterator[Notice]:
        """The warnings for kinds that actions and item block actions name and that do not exist."""
        yield from super().without_items(discovery, is_known=is_known)
        yield from self._blocks.without_items(discovery, is_known=is_known)

    async def prepare(self, group_resource: str) -> None:
        """Let the actions of `for_resource` read what they need before they get an item."""
        for resolved in self.for_resource(group_resource):
            if isinstance(resolved.action, PreparedBackupItemAction):
                await resolved.action.prepare()


async def _resolve(action: _ActionT, canonical: Callable[[str], str]) -> ResolvedAction[_ActionT]:
    try:
        wanted = await action.applies_to()
    except Exception as error:  # an action is foreign code: whatever it raises ends the backup, with its name
        text = f"error getting the selector of action {action.name}: {error}"
        raise FatalBackupError(Notice(Code.ACTION_UNUSABLE, text)) from error
    try:
        return ResolvedAction.of(action, wanted, canonical)
    except ValueError as error:
        text = f"invalid label selector of action {action.name}: {error}"
        raise FatalBackupError(Notice(Code.ACTION_UNUSABLE, text)) from error
