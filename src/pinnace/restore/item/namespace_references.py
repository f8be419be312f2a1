"""Finds the fields of objects that name a namespace. Pure. (docs/spec: RST 16; docs/adr/084)

A restore maps the namespaces of objects, of the subjects of role bindings and of the claims of volumes. All
else that names a namespace is left as it is, since only its author knows whether the copy or the original is
meant: the service of a webhook, the peers of a NetworkPolicy, the argument of a program. It is only said.
"""

import re
from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from pinnace.api import kinds
from pinnace.api.objects import JSONObject, listed, mapping, text

MOST_FIELDS: Final = 1000
"""How many fields of one object are found at most."""
_LONGEST_SHOWN: Final = 200
"""How many characters of the path of a field are shown."""

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""Selectors choose a namespace by its name through this label."""

_IN_METADATA: Final = ("cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret")
"""The annotations that are looked at: `namespace/name`. Others say where the object itself is, or was."""

_MAPPED: Final = {
    kinds.CLUSTER_ROLE_BINDINGS.group_resource: ("subjects",),
    kinds.ROLE_BINDINGS.group_resource: ("subjects",),
    kinds.PERSISTENT_VOLUMES.group_resource: ("spec", "claimRef"),
    kinds.VOLUME_SNAPSHOT_CONTENTS.group_resource: ("spec", "volumeSnapshotRef"),
}
"""The fields that the restore maps itself. In a mapping that swaps names, the new name is an old one, too."""

NOT_LOOKED_AT: Final = frozenset(
    kinds.group_resources(kinds.ENDPOINTS, kinds.ENDPOINT_SLICES, kinds.IP_ADDRESSES, kinds.SECRETS)
)
"""Kinds whose references follow from other objects, and Secrets, whose values are nobody's business."""

_ACCOUNT: Final = re.compile(r"(?:system:serviceaccounts?:|/ns/)([a-z0-9-]{1,63})(?![a-z0-9-])")
"""`system:serviceaccount:NAMESPACE:NAME`, and the identities of SPIFFE."""
_HOST: Final = re.compile(r"\.([a-z0-9-]{1,63})\.svc(?![a-z0-9-])")
"""`SERVICE.NAMESPACE.svc`, in host names and URLs."""
_ARGUMENT: Final = re.compile(r"--?[A-Za-z0-9_.-]{0,100}namespaces?=([a-z0-9-]{1,63})")
_QUOTED: Final = re.compile(r"""['"]([a-z0-9-]{1,63})['"]""")
_WITH_QUOTES: Final = frozenset({"expression", "namespaceSelector"})
"""Fields with an expression that compares names: of admission policies, and selectors of Calico."""


class _Place:
    """A value in an object. It points to its parent, as whole paths of deep objects take much memory."""

    __slots__ = ("field", "parent")

    def __init__(self, field: str | int, parent: "_Place | None" = None) -> None:
        self.field = field
        self.parent = parent

    def path(self) -> tuple[str | int, ...]:
        steps: list[str | int] = []
        place: _Place | None = self
        while place is not None:
            steps.append(place.field)
            place = place.parent
        return tuple(reversed(steps))

    @property
    def holder(self) -> str | int:
        """The field, or that of the list whose entry this is."""
        is_entry = isinstance(self.field, int) and self.parent is not None
        return self.parent.field if is_entry and self.parent is not None else self.field


def naming_fields(group_resource: str, item: JSONObject, names: Collection[str]) -> list[str]:
    """The fields of an object that name one of the namespaces, such as `spec.from[0].namespace`.

    Args:
        item: as JSON; it may be nested as deeply as JSON can be.
        names: of namespaces.
    """
    if group_resource in NOT_LOOKED_AT:
        return []
    annotations = mapping(item, "metadata", "annotations")
    found = [
        _shown(("metadata", "annotations", name))
        for name in _IN_METADATA
        if text(annotations, name).partition("/")[0] in names
    ]
    places = _places(item, names, _MAPPED.get(group_resource, ()))
    return found + [_shown(place.path()) for place in islice(places, MOST_FIELDS)]


def _places(item: JSONObject, names: Collection[str], mapped: tuple[str, ...]) -> Iterator[_Place]:
    waiting = deque(
        (_Place(field), value) for field, value in item.items() if field not in ("metadata", "status")
    )
    while waiting:
        place, value = waiting.popleft()
        if isinstance(value, dict):
            if mapped and place.field == mapped[-1] and place.path() == mapped:
                continue
            if _names_by_siblings(value, names):
                yield place
            waiting += ((_Place(field, place), entry) for field, entry in value.items())
        elif isinstance(value, list):
            if mapped and place.field == mapped[-1] and place.path() == mapped:
                continue
            waiting += ((_Place(position, place), entry) for position, entry in enumerate(value))
        elif isinstance(value, str) and _is_reference(place, value, names):
            yield place


def _names_by_siblings(value: JSONObject, names: Collection[str]) -> bool:
    """Whether a requirement of a selector, a rule of a role or a variable of a container names one."""
    if value.get("key") == _NAME_LABEL:
        return _has_one(value.get("values"), names)
    if "namespaces" in listed(value, "resources"):
        return _has_one(value.get("resourceNames"), names)
    return _is_for_namespaces(text(value, "name")) and text(value, "value") in names


def _has_one(values: object, names: Collection[str]) -> bool:
    return isinstance(values, list) and any(isinstance(each, str) and each in names for each in values)


def _is_reference(place: _Place, value: str, names: Collection[str]) -> bool:
    if value in names:
        holder = place.holder
        return isinstance(holder, str) and (
            holder in (_NAME_LABEL, "matchNames") or _is_for_namespaces(holder)
        )
    if any(match[1] in names for pattern in (_ACCOUNT, _HOST) for match in pattern.finditer(value)):
        return True
    if isinstance(place.field, int) and (argument := _ARGUMENT.fullmatch(value)):
        return argument[1] in names
    return place.field in _WITH_QUOTES and any(match[1] in names for match in _QUOTED.finditer(value))


def _is_for_namespaces(field: str) -> bool:
    """Whether a field holds a namespace by its name: `namespace`, `targetNamespaces`, `WATCH_NAMESPACE`."""
    return field.lower().endswith(("namespace", "namespaces"))


def _shown(path: tuple[str | int, ...]) -> str:
    shown = ""
    for step in path:
        if isinstance(step, int):
            shown += f"[{step}]"
        elif step.isidentifier():
            shown += f".{step}" if shown else step
        else:
            shown += f'["{step}"]'
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."
