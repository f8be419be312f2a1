"""The rules of a ConfigMap with resource modifiers: reading and validation. Pure. (docs/spec: BEY 5.3)"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson
from msgspec import Struct

from pinnace.api.meta import LabelSelector
from pinnace.api.selection.globs import Glob, GlobError
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.selectors import Selector
from pinnace.api.strict_yaml import only_document, read_yaml
from pinnace.restore.modifiers.expression_syntax import ExpressionError
from pinnace.restore.modifiers.expressions import NameExpression
from pinnace.restore.modifiers.json_patch import Op, PatchError, PatchOperation, pointer
from pinnace.restore.modifiers.values import value_of

VERSION: Final = "v1"
_MAX_RULES: Final = 1000
_MAX_REGEX_CHARACTERS: Final = 1000


class ModifierError(ValueError):
    """The resource modifiers cannot be used; the text says which rule, and why."""


class _Strict(Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A part of the document: an unknown key is an error."""


class _Match(_Strict):
    path: str = ""
    value: str | None = ""


class _Conditions(_Strict):
    group_resource: str = ""
    namespaces: list[str] | None = None
    resource_name_regex: str | None = ""
    label_selector: LabelSelector | None = None
    matches: list[_Match] | None = None


class _JSONPatch(_Strict):
    operation: str = ""
    path: str = ""
    source: str | None = msgspec.field(name="from", default="")
    value: str | None = ""


class _PatchData(_Strict):
    patch_data: str | None = ""


class _Rule(_Strict):
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)
    patches: list[_JSONPatch] | None = None
    merge_patches: list[_PatchData] | None = None
    strategic_patches: list[_PatchData] | None = None


class _Document(_Strict):
    version: str = ""
    resource_modifier_rules: list[_Rule] | None = None


class ResourceGlob:
    """A pattern for `plural.group`: `*` does not cross a dot, and `**` does. (docs/spec: BEY 5.3)"""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        # As in the library that Velero uses: a run of two stars crosses separators, one star does not.
        self._parts = [Glob(part) for part in pattern.split(".")] if "**" not in pattern else None
        self._whole = Glob(pattern) if self._parts is None else None

    def matches(self, group_resource: str) -> bool:
        """Whether the pattern stands for the whole name."""
        if self._whole is not None:
            return self._whole.matches(group_resource)
        parts = group_resource.split(".")
        assert self._parts is not None
        return len(parts) == len(self._parts) and all(
            glob.matches(part) for glob, part in zip(self._parts, parts, strict=True)
        )


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule; exactly one of the three kinds of patches is not empty."""

    number: int
    resources: ResourceGlob
    namespaces: IncludesExcludes
    name: NameExpression | None
    labels: Selector
    matches: Sequence[PatchOperation]
    operations: Sequence[PatchOperation] = ()
    merge_patches: Sequence[Any] = ()
    strategic_patches: Sequence[Mapping[str, Any]] = ()


def read_rules(config_map: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules of a ConfigMap.

    Raises:
        ModifierError: it cannot be used, with the first reason.
    """
    try:
        document = msgspec.convert(read_yaml(only_document(config_map)), _Document)
    except (ValueError, msgspec.ValidationError) as error:
        raise ModifierError(str(error)) from error
    if document.version.lower() != VERSION:
        raise ModifierError(f'version "{document.version}" is not supported: it must be {VERSION}')
    raw_rules = document.resource_modifier_rules or []
    if not raw_rules:
        raise ModifierError("it has no resourceModifierRules")
    if len(raw_rules) > _MAX_RULES:
        raise ModifierError(f"it has more than {_MAX_RULES} rules")
    return tuple(_rule(number, raw) for number, raw in enumerate(raw_rules, start=1))


def _rule(number: int, raw: _Rule) -> Rule:
    conditions = raw.conditions
    try:
        if not conditions.group_resource:
            raise ModifierError("conditions.groupResource is missing")
        kinds = [name for name, given in _patches_of(raw) if given]
        if not kinds:
            raise ModifierError("it has no patches, mergePatches or strategicPatches")
        if len(kinds) > 1:
            raise ModifierError(f"it has {' and '.join(kinds)}: write a rule for each kind of patches")
        namespaces = [name for name in conditions.namespaces or () if name]
        for name in namespaces:
            Glob(name)
        return Rule(
            number=number,
            resources=ResourceGlob(conditions.group_resource),
            namespaces=IncludesExcludes(namespaces),
            name=regex(conditions.resource_name_regex or ""),
            labels=Selector.from_label_selector(conditions.label_selector),
            matches=[_test(match) for match in conditions.matches or ()],
            operations=[_operation(patch) for patch in raw.patches or ()],
            merge_patches=[_data(patch) for patch in raw.merge_patches or ()],
            strategic_patches=[_strategic(patch) for patch in raw.strategic_patches or ()],
        )
    except (GlobError, ValueError) as error:
        raise ModifierError(f"rule {number}: {error}") from error


def _patches_of(raw: _Rule) -> tuple[tuple[str, Sequence[object] | None], ...]:
    return (
        ("patches", raw.patches),
        ("mergePatches", raw.merge_patches),
        ("strategicPatches", raw.strategic_patches),
    )


def regex(text: str) -> NameExpression | None:
    """The compiled expression; None for an empty one. Raises ModifierError."""
    if not text:
        return None
    if len(text) > _MAX_REGEX_CHARACTERS:
        raise ModifierError(f"resourceNameRegex is longer than {_MAX_REGEX_CHARACTERS} characters")
    try:
        return NameExpression(text)
    except ExpressionError as error:
        raise ModifierError(f'resourceNameRegex "{text}" is not a regular expression: {error}') from error


def _test(match: _Match) -> PatchOperation:
    if not match.path:
        raise ModifierError("a condition in matches has no path")
    pointer(match.path)
    return PatchOperation(kind=Op.TEST, path=match.path, value=value_of(match.value or ""))


def _operation(patch: _JSONPatch) -> PatchOperation:
    try:
        kind = Op(patch.operation.lower())
    except ValueError:
        known = ", ".join(Op)
        raise ModifierError(f'operation "{patch.operation}" is not one of {known}') from None
    source = patch.source or ""
    if not patch.path:
        raise ModifierError(f"a patch with operation {kind} has no path")
    if kind in (Op.MOVE, Op.COPY) and not source:
        raise ModifierError(f"operation {kind} of {patch.path} has no from")
    try:
        pointer(patch.path)
        pointer(source)
    except PatchError as error:
        raise ModifierError(str(error)) from error
    value = value_of(patch.value or "") if kind in (Op.ADD, Op.REPLACE, Op.TEST) else None
    return PatchOperation(kind=kind, path=patch.path, source=source, value=value)


def _data(patch: _PatchData) -> Any:
    """The object in `patchData`, which is JSON or YAML."""
    import yaml

    text = patch.patch_data or ""
    try:
        found = yaml.safe_load(text)
        orjson.dumps(found)
    except (yaml.YAMLError, RecursionError, TypeError, orjson.JSONEncodeError) as error:
        raise ModifierError(f"patchData is neither JSON nor YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise ModifierError("patchData is not an object")
    return found


def _strategic(patch: _PatchData) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _data(patch)
    return found
