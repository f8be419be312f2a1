"""An action with its resolved selector, to be compared with items. (docs/spec: BKP 8.1, RST 5, CTL 6.3)"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.selectors import Selector
from pinnace.plugins.protocols import ResourceSelector

ActionT = TypeVar("ActionT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAction(Generic[ActionT]):
    """An action of any kind, for backups, restores and deletions."""

    action: ActionT
    resources: IncludesExcludes
    namespaces: IncludesExcludes
    selector: Selector

    @classmethod
    def of(
        cls, action: ActionT, wanted: ResourceSelector, canonical: Callable[[str], str]
    ) -> "ResolvedAction[ActionT]":
        """Resolve the selector that the action returned.

        Raises:
            ValueError: its label selector is not valid.
        """
        return cls(
            action=action,
            resources=IncludesExcludes.resolved(
                wanted.included_resources, wanted.excluded_resources, canonical
            ),
            namespaces=IncludesExcludes(wanted.included_namespaces, wanted.excluded_namespaces),
            selector=Selector.parse(wanted.label_selector),
        )

    def wants(self, namespace: str, labels: Mapping[str, str] | None) -> bool:
        """Whether the action is to see an item of a resource that it wants.

        Cluster-scoped items have an empty namespace; an action that selects namespaces does not see them.
        """
        admitted = self.namespaces.matches(namespace) if namespace else self.namespaces.includes_everything
        return admitted and self.selector.matches(labels)
