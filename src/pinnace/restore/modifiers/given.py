"""Rules that a program gives as values, without the text of a ConfigMap. Pure. (docs/spec: BEY 5.3)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pinnace.api.meta import LabelSelector
from pinnace.api.selection.globs import Glob, GlobError
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.selectors import Selector
from pinnace.restore.modifiers.json_patch import Op, PatchError, PatchOperation, pointer
from pinnace.restore.modifiers.rules import ModifierError, ResourceGlob, Rule, regex

_WITH_VALUE = (Op.ADD, Op.REPLACE, Op.TEST)
_KEYS = {"op", "path", "from", "value"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One rule, not checked.

    Attributes:
        labels: None for all objects.
        json_patch: operations of RFC 6902.
    """

    resources: str
    namespaces: Sequence[str]
    name_pattern: str
    labels: LabelSelector | None
    matches: Mapping[str, object]
    json_patch: Sequence[Mapping[str, object]]
    merge_patch: Mapping[str, object] | None
    strategic_patch: Mapping[str, object] | None


def rule_from(number: int, given: Given) -> Rule:
    """The rule of these values.

    Raises:
        ModifierError: it cannot be used; the text says why.
    """
    patches = (given.json_patch, given.merge_patch, given.strategic_patch)
    try:
        if not given.resources:
            raise ModifierError("resources is empty: name a kind, such as deployments.apps")
        if sum(bool(patch) for patch in patches) != 1:
            raise ModifierError("it must have exactly one of json_patch, merge_patch and strategic_patch")
        for name in given.namespaces:
            Glob(name)
        return Rule(
            number=number,
            resources=ResourceGlob(given.resources),
            namespaces=IncludesExcludes(list(given.namespaces)),
            name=regex(given.name_pattern),
            labels=Selector.from_label_selector(given.labels),
            matches=[
                PatchOperation(kind=Op.TEST, path=_pointer(path), value=_json(value))
                for path, value in given.matches.items()
            ],
            operations=[_operation(each) for each in given.json_patch],
            merge_patches=[_json(given.merge_patch)] if given.merge_patch else (),
            strategic_patches=[_json(given.strategic_patch)] if given.strategic_patch else (),
        )
    except (GlobError, PatchError, ValueError) as error:
        raise ModifierError(f"rule {number}: {error}") from error


def _operation(given: Mapping[str, object]) -> PatchOperation:
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise ModifierError(f"a patch has the unknown key {unknown[0]!r}")
    try:
        kind = Op(str(given.get("op")))
    except ValueError:
        raise ModifierError(f"op {given.get('op')!r} is not one of {', '.join(Op)}") from None
    path = _pointer(given.get("path"))
    if kind in _WITH_VALUE:
        if "value" not in given:
            raise ModifierError(f"op {kind} of {path} has no value")
        return PatchOperation(kind=kind, path=path, value=_json(given["value"]))
    source = _pointer(given.get("from")) if kind in (Op.MOVE, Op.COPY) else ""
    return PatchOperation(kind=kind, path=path, source=source, value=None)


def _pointer(path: object) -> str:
    if not isinstance(path, str) or not path:
        raise ModifierError(f"{path!r} is not a JSON pointer, such as /spec/replicas")
    pointer(path)
    return path


def _json(value: object) -> Any:
    """A copy of a JSON value, so that a later change by the program has no effect."""
    try:
        return orjson.loads(orjson.dumps(value))
    except (TypeError, orjson.JSONEncodeError) as error:
        raise ModifierError(f"a value cannot be written as JSON: {error}") from error
