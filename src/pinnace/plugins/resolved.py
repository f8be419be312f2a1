"""An action with its resolved selector, to be compared with items. (docs/spec: BKP 8.1, RST 5, CTL 6.3)"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.selectors import Selector
from pinnace.kube.discovery import Discovery
from pinnace.kube.unserved import unserved_names
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.protocols import ResourceSelector

_OWN: Final = ("velero.io/", "pinnace.io/")
"""The beginnings of the names of built-in actions and of Velero's own, which are for kinds of add-ons too."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


ActionT = TypeVar("ActionT")
NamedT = TypeVar("NamedT", bound=_Named)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAction(Generic[ActionT]):
    """An action of any kind, for backups, restores and deletions.

    Attributes:
        named: the resources that its selector includes, as the action names them.
    """

    action: ActionT
    named: Sequence[str]
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
            named=wanted.included_resources,
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


class ActionTable(Generic[NamedT]):
    """Actions in execution order, looked up once for each resource, as most have none."""

    def __init__(self, resolved: Sequence[ResolvedAction[NamedT]]) -> None:
        self._resolved = resolved
        self._by_resource: dict[str, tuple[ResolvedAction[NamedT], ...]] = {}

    @property
    def names(self) -> list[str]:
        """The names of all actions."""
        return [resolved.action.name for resolved in self._resolved]

    def for_resource(self, group_resource: str) -> tuple[ResolvedAction[NamedT], ...]:
        """The actions that may apply to items of a resource, in order."""
        found = self._by_resource.get(group_resource)
        if found is None:
            found = self._by_resource[group_resource] = tuple(
                action for action in self._resolved if action.resources.matches(group_resource)
            )
        return found

    def without_items(
        self, discovery: Discovery, *, is_known: Callable[[str], bool] = lambda _: False
    ) -> Iterator[Notice]:
        """A warning for each kind that an action of a plugin names and that does not exist: perhaps misspelt.

        Args:
            is_known: whether a kind that the cluster does not serve exists all the same.
        """
        for resolved in self._resolved:
            name = resolved.action.name
            if name.startswith(_OWN):
                continue
            for unserved in unserved_names(resolved.named, discovery):
                if not is_known(unserved.name):
                    text = f"Plugin {name} is called for no {unserved.name}: {unserved.text}"
                    yield Notice(Code.ACTION_SELECTS_NOTHING, text, action=name)
