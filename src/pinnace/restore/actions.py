"""Decides which restore actions apply to which items. (docs/spec: RST 5, 15)"""

from collections.abc import Callable, Iterator, Sequence

from pinnace.api.selection.names import EVERYTHING
from pinnace.kube.discovery import Discovery
from pinnace.plugins.protocols import ResourceSelector, RestoreItemAction
from pinnace.plugins.resolved import ResolvedAction, without_items
from pinnace.restore.errors import SetupError

ApplicableAction = ResolvedAction[RestoreItemAction]


class ActionTable:
    """The actions of a restore, looked up once for each kind, as most kinds have none."""

    def __init__(
        self,
        declared: Sequence[tuple[RestoreItemAction, ResourceSelector]],
        canonical: Callable[[str], str],
    ) -> None:
        self._declared = declared
        self._resolved = [ResolvedAction.of(action, wanted, canonical) for action, wanted in declared]
        self._by_resource: dict[str, tuple[ApplicableAction, ...]] = {}

    @classmethod
    async def load(
        cls, actions: Sequence[RestoreItemAction], canonical: Callable[[str], str]
    ) -> "ActionTable":
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
                raise SetupError(f"error resolving restore item action {action.name}: {error}") from error
            declared.append((action, wanted))
        return cls(declared, canonical)

    def with_discovery(self, canonical: Callable[[str], str]) -> "ActionTable":
        """The same table, resolved with newer discovery, which may include more custom resources."""
        return ActionTable(self._declared, canonical)

    def without_items(self, discovery: Discovery, is_known: Callable[[str], bool]) -> Iterator[str]:
        """The warnings for kinds that actions of plugins name and that do not exist."""
        return without_items(self._resolved, discovery, is_known=is_known)

    def handles(self, group_resource: str) -> bool:
        """Whether an action names a kind, rather than to take all kinds."""
        return any(
            action.named and EVERYTHING not in action.named and action.resources.matches(group_resource)
            for action in self._resolved
        )

    def for_resource(self, group_resource: str) -> tuple[ApplicableAction, ...]:
        """The actions for a kind, in order; empty for most."""
        found = self._by_resource.get(group_resource)
        if found is None:
            found = self._by_resource[group_resource] = tuple(
                action for action in self._resolved if action.resources.matches(group_resource)
            )
        return found
