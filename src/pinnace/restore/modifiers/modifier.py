"""Applies resource modifiers to one object. Pure: restores and their previews use it. (docs/spec: BEY 5.3)"""

from collections.abc import Sequence

import msgspec
import orjson

from pinnace.api.objects import JSONObject, copied, mapping, text
from pinnace.kube.resources import NAMESPACES
from pinnace.restore.modifiers import json_patch, strategic
from pinnace.restore.modifiers.json_patch import PatchError, TestFailed
from pinnace.restore.modifiers.rules import Rule

_ADVICE = r'write a number or boolean as text, in two pairs of quotes, such as value: "\"5\""'


class Modified(msgspec.Struct, frozen=True, kw_only=True):
    """An object after the rules.

    Attributes:
        rules: the numbers of the rules that changed it, from 1.
        tested: the rules whose conditions it met, and whose `test` failed.
        failed: the rules that could not be applied; the object is as the other rules left it.
        problems: why not, in the order of `failed`.
    """

    item: JSONObject
    rules: Sequence[int] = ()
    tested: Sequence[int] = ()
    failed: Sequence[int] = ()
    problems: Sequence[str] = ()


class ResourceModifiers:
    """The rules of one restore.

    Args:
        source: the ConfigMap that has them, as its reader names it; empty if they come from no ConfigMap.
    """

    def __init__(self, rules: Sequence[Rule], source: str = "") -> None:
        self.rules = rules
        self.source = source

    def apply(self, group_resource: str, original_namespace: str, item: JSONObject) -> Modified:
        """The object after all rules whose conditions it met before the first of them.

        Args:
            original_namespace: its namespace in the backup; empty if cluster-scoped.
            item: not changed; a Namespace under its name in the backup.
        """
        if group_resource == NAMESPACES.group_resource:
            # A rule for the objects of a namespace must not change the labels of every other one.
            original_namespace = text(item, "metadata", "name")
        applicable = [rule for rule in self.rules if _applies(rule, group_resource, original_namespace, item)]
        if not applicable:
            return Modified(item=item)
        changed = copied(item)
        numbers: list[int] = []
        tested: list[int] = []
        failed: list[int] = []
        problems: list[str] = []
        for rule in applicable:
            try:
                after = _patched(rule, changed)
                _check(item, after)
            except TestFailed:
                tested.append(rule.number)
                continue
            except (PatchError, RecursionError) as error:
                reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
                failed.append(rule.number)
                problems.append(f"resource modifier rule {rule.number}: {reason}")
                continue
            changed = after
            numbers.append(rule.number)
        return Modified(
            item=changed,
            rules=tuple(numbers),
            tested=tuple(tested),
            failed=tuple(failed),
            problems=tuple(problems),
        )


def _applies(rule: Rule, group_resource: str, namespace: str, item: JSONObject) -> bool:
    metadata = mapping(item, "metadata")
    if not rule.resources.matches(group_resource):
        return False
    if namespace and not rule.namespaces.matches(namespace):
        return False
    if rule.name is not None and not rule.name.search(str(metadata.get("name", ""))):
        return False
    if not rule.labels.empty and not rule.labels.matches(mapping(metadata, "labels")):
        return False
    return not rule.matches or json_patch.matches(item, rule.matches)


def _patched(rule: Rule, item: JSONObject) -> JSONObject:
    """The object after the patches of one rule: all of them, or none."""
    if rule.operations:
        after = json_patch.apply(item, rule.operations)
    else:
        after = item
        for patch in rule.merge_patches:
            after = json_patch.merged(after, patch)
        for patch in rule.strategic_patches:
            after = strategic.merged(after, patch)
    if not isinstance(after, dict):
        raise PatchError("the result is not an object")
    return after


def _check(before: JSONObject, after: JSONObject) -> None:
    """Refuse a result that is not an object of the same kind and name, or not JSON. Raises PatchError.

    The name and the kind decide where the object is created; the earlier checks were made for the old ones.
    """
    for field in ("apiVersion", "kind"):
        if after.get(field) != before.get(field):
            raise PatchError(f"a modifier may not change {field}")
    metadata = after.get("metadata")
    if not isinstance(metadata, dict):
        raise PatchError("the result has no metadata")
    for field in ("name", "namespace"):
        if metadata.get(field) != mapping(before, "metadata").get(field):
            raise PatchError(f"a modifier may not change metadata.{field}")
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if values is not None and not (
            isinstance(values, dict) and all(isinstance(value, str) for value in values.values())
        ):
            raise PatchError(f"metadata.{field} would not be a map of strings: {_ADVICE}")
    try:
        orjson.dumps(after)
    except orjson.JSONEncodeError as error:
        raise PatchError(f"the result cannot be written as JSON: {error}") from error
