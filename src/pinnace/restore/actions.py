"""Which restore actions see which items. (docs/spec: RST 5, 15)"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pinnace.api.selection import IncludesExcludes
from pinnace.api.selectors import Selector
from pinnace.plugins.protocols import ResourceSelector, RestoreItemAction
from pinnace.restore.errors import SetupError


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicableAction:
    """An action for one kind, with what is left to ask of each item."""

    action: RestoreItemAction
    namespaces: IncludesExcludes
    selector: Selector

    def wants(self, target_namespace: str, labels: Mapping[str, str] | None) -> bool:
        """Whether the action is to see this item; cluster-scoped items have an empty namespace."""
        if target_namespace:
            admitted = self.namespaces.matches(target_namespace)
        else:
            admitted = self.namespaces.includes_everything
        return admitted and (self.selector.empty or self.selector.matches(labels))


class ActionTable:
    """The actions of a restore, sorted out by kind once, so that most kinds skip the machinery."""

    def __init__(
        self,
        declared: Sequence[tuple[RestoreItemAction, ResourceSelector, Selector]],
        canonical: Callable[[str], str],
    ) -> None:
        self._declared = declared
        self._resources = [
            IncludesExcludes.resolved(wanted.included_resources, wanted.excluded_resources, canonical)
            for _, wanted, _ in declared
        ]
        self._by_resource: dict[str, tuple[ApplicableAction, ...]] = {}

    @classmethod
    async def load(
        cls, actions: Sequence[RestoreItemAction], canonical: Callable[[str], str]
    ) -> "ActionTable":
        """Ask every action once what it wants to see; the order given is the order of execution.

        Raises:
            SetupError: an action did not answer, or its label selector is wrong.
        """
        declared = []
        for action in actions:
            try:
                wanted = await action.applies_to()
                declared.append((action, wanted, Selector.parse(wanted.label_selector)))
            except Exception as error:
                # Actions are foreign code, and any failure of theirs is to end in the results.
                raise SetupError(f"error resolving restore item action {action.name}: {error}") from error
        return cls(declared, canonical)

    def with_discovery(self, canonical: Callable[[str], str]) -> "ActionTable":
        """The same answers, resolved against newer discovery: custom resources may be known by now."""
        return ActionTable(self._declared, canonical)

    def for_resource(self, group_resource: str) -> tuple[ApplicableAction, ...]:
        """The actions for a kind, in order; empty for most."""
        found = self._by_resource.get(group_resource)
        if found is None:
            found = self._by_resource[group_resource] = tuple(
                ApplicableAction(
                    action=action,
                    namespaces=IncludesExcludes(wanted.included_namespaces, wanted.excluded_namespaces),
                    selector=selector,
                )
                for (action, wanted, selector), resources in zip(self._declared, self._resources, strict=True)
                if resources.matches(group_resource)
            )
        return found
