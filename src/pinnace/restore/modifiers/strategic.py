"""Strategic merge patches for Kubernetes' own kinds. Pure.

Lists of objects with a merge key are merged element by element, all other lists are replaced. Which fields
have which key is fixed by Kubernetes' types; the table below is compared with a real API server by a test.
Statuses are not in it, as a restore removes them first. Custom resources have no such keys, so they are
refused.
(docs/spec: BEY 5.3)
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pinnace.api.objects import JSONObject, same_json, text
from pinnace.kube.resources import KUBERNETES_GROUPS
from pinnace.restore.modifiers.json_patch import PatchError

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_VALUES: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"

_CONTAINERS: Final = frozenset({"containers", "initContainers", "ephemeralContainers"})

MERGE_KEYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_CONTAINERS, "name"),
    "drivers": "name",
    "env": "name",
    "hostAliases": "ip",
    "matchConditions": "name",
    "ownerReferences": "uid",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "variables": "name",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
    "x-kubernetes-validations": "rule",
}
"""Fields with the same merge key wherever they are; for `ports` and `imagePullSecrets` the parent decides."""


def merged(item: JSONObject, patch: Mapping[str, Any]) -> JSONObject:
    """The object after a strategic merge patch; the given one is not changed.

    Raises:
        PatchError: it is no object of Kubernetes' own kinds, or an element of the patch has no merge key.
    """
    group = text(item, "apiVersion").rpartition("/")[0]
    if "." in group and group not in KUBERNETES_GROUPS:
        raise PatchError(
            f"{text(item, 'kind')} of {group} is a custom resource; there are no strategic patches for those:"
            " use mergePatches or patches"
        )
    result = _Merge(text(item, "kind")).objects(copy.deepcopy(item), patch, "")
    if not isinstance(result, dict):
        raise PatchError("the patch deletes the whole object")
    return result


class _Merge:
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def objects(self, current: JSONObject, patch: Mapping[str, Any], name: str) -> JSONObject | None:
        """An object of the field `name` after a patch; None if the patch deletes it."""
        directive = patch.get(_PATCH)
        if directive == "delete":
            return None
        if directive == "replace":
            replaced: JSONObject = self._without_directives(patch)
            return replaced
        if directive not in (None, "merge"):
            raise PatchError(f'{_PATCH} "{directive}" is not one of merge, replace, delete')
        retained = patch.get(_RETAIN)
        if isinstance(retained, list):
            current = {key: value for key, value in current.items() if key in retained}
        original = dict(current)
        for key, value in patch.items():
            if key.startswith(_DELETE_VALUES):
                self._delete_values(current, key.removeprefix(_DELETE_VALUES), value)
            elif not key.startswith("$"):
                self._put(current, key, value, name)
        for key, value in patch.items():
            if key.startswith(_ORDER):
                self._order(current, key.removeprefix(_ORDER), value, (name, original))
        return current

    def _put(self, current: JSONObject, key: str, value: Any, parent: str) -> None:
        before = current.get(key)
        if value is None:
            current.pop(key, None)
        elif isinstance(value, Mapping):
            after = self.objects(before if isinstance(before, dict) else {}, value, key)
            if after is None:
                current.pop(key, None)
            else:
                current[key] = after
        elif isinstance(value, list):
            current[key] = self._lists(before if isinstance(before, list) else [], value, key, parent)
        else:
            current[key] = value

    def _lists(self, before: list[Any], patch: Sequence[Any], key: str, parent: str) -> list[Any]:
        if key == "finalizers" and parent == "metadata":
            union = [*before, *(value for value in patch if value not in before)]
            return _ordered(union, patch, before, None)
        merge_key = self._merge_key(key, parent)
        if merge_key is None:
            return [self._without_directives(entry) for entry in patch]
        if any(isinstance(entry, Mapping) and _is_replacement(entry) for entry in patch):
            return [self._without_directives(entry) for entry in patch if not _is_replacement(entry)]
        result = list(before)
        for entry in patch:
            if not isinstance(entry, Mapping) or merge_key not in entry:
                raise PatchError(f"an element of {key} does not contain the merge key {merge_key}")
            position = _position(result, merge_key, entry[merge_key])
            found = result[position] if position is not None else {}
            after = self.objects(found, entry, key)
            if position is None:
                if after is not None:
                    result.append(after)
            elif after is None:
                del result[position]
            else:
                result[position] = after
        return _ordered(result, patch, before, merge_key)

    def _merge_key(self, key: str, parent: str) -> str | None:
        if key == "ports":
            if parent in _CONTAINERS:
                return "containerPort"
            return "port" if (self._kind, parent) == ("Service", "spec") else None
        if key == "imagePullSecrets":
            return "name" if parent == "spec" else None
        return MERGE_KEYS.get(key)

    def _delete_values(self, current: JSONObject, key: str, values: object) -> None:
        before = current.get(key)
        if isinstance(before, list) and isinstance(values, list):
            current[key] = [value for value in before if value not in values]

    def _order(
        self, current: JSONObject, key: str, order: object, place: tuple[str, Mapping[str, Any]]
    ) -> None:
        """Put the elements that the patch names into its order; `place` is the parent and the original."""
        entries, (parent, original) = current.get(key), place
        if isinstance(entries, list) and isinstance(order, list):
            before = original.get(key)
            merge_key = self._merge_key(key, parent)
            current[key] = _ordered(entries, order, before if isinstance(before, list) else [], merge_key)

    def _without_directives(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                key: self._without_directives(member)
                for key, member in value.items()
                if not key.startswith("$") and member is not None
            }
        if isinstance(value, list):
            return [self._without_directives(member) for member in value]
        return copy.deepcopy(value)


def _is_replacement(entry: object) -> bool:
    return isinstance(entry, Mapping) and entry.get(_PATCH) == "replace"


def _position(entries: Sequence[Any], merge_key: str, wanted: Any) -> int | None:
    for position, entry in enumerate(entries):
        if isinstance(entry, dict) and same_json(entry.get(merge_key), wanted):
            return position
    return None


def _ordered(
    entries: Sequence[Any], patch: Sequence[Any], before: Sequence[Any], merge_key: str | None
) -> list[Any]:
    """The elements in the order of an API server: those of the patch in its order, mixed with the others.

    Two elements that the object had before keep their order; a new one comes before the others that are left.
    """

    def index(order: Sequence[Any], entry: Any) -> int:
        name = entry.get(merge_key) if isinstance(entry, Mapping) else entry
        for position, other in enumerate(order):
            if same_json(other.get(merge_key) if isinstance(other, Mapping) else other, name):
                return position
        return -1

    named = sorted(
        (entry for entry in entries if index(patch, entry) >= 0), key=lambda entry: index(patch, entry)
    )
    others = [entry for entry in entries if index(patch, entry) < 0]
    result = []
    while named and others:
        left, right = index(before, others[0]), index(before, named[0])
        result.append(others.pop(0) if 0 <= left < right else named.pop(0))
    return [*result, *named, *others]
