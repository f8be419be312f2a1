"""Decides which restore actions apply to an item. (docs/spec: RST 5, 15)"""

from collections.abc import Callable, Sequence

from pinnace.api.selection.names import EVERYTHING
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.protocols import ResourceSelector, RestoreItemAction
from pinnace.plugins.resolved import ActionTable, ResolvedAction
from pinnace.restore.errors import SetupError

ApplicableAction = ResolvedAction[RestoreItemAction]


class RestoreActions(ActionTable[RestoreItemAction]):
    """The actions of a restore."""

    def __init__(
        self,
        declared: Sequence[tuple[RestoreItemAction, ResourceSelector]],
        canonical: Callable[[str], str],
    ) -> None:
        super().__init__([ResolvedAction.of(action, wanted, canonical) for action, wanted in declared])
        self._declared = declared

    @classmethod
    async def load(
        cls, actions: Sequence[RestoreItemAction], canonical: Callable[[str], str]
    ) -> "RestoreActions":
        """Ask every action once which items it applies to; they run in the given order.

        Raises:
            SetupError: an action did not answer, or its label selector is wrong.
        """
        declared = []
        for action in actions:
            try:
                wanted = await action.applies_to()
                ResolvedAction.of(action, wanted, canonical)
            except Exception as error:
                # Actions are foreign code: any of their failures must be reported in the results.
                text = f"error resolving restore item action {action.name}: {error}"
                raise SetupError(Notice(Code.ACTION_UNUSABLE, text, action=action.name)) from error
            declared.append((action, wanted))
        return cls(declared, canonical)

    def with_discovery(self, canonical: Callable[[str], str]) -> "RestoreActions":
        """The same table, resolved with newer discovery, which may include more custom resources."""
        return RestoreActions(self._declared, canonical)

    def handles(self, group_resource: str) -> bool:
        """Whether an action names a kind, rather than to take all kinds."""
        return any(
            action.named and EVERYTHING not in action.named and action.resources.matches(group_resource)
            for action in self._resolved
        )
