"""Compare a cluster with what it was before: object by object, field by field. Pure.

Every difference is found; rules (see documented.py) name those that a restore may leave. A
difference that no rule covers is unexplained, and so is an object that is missing or new.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

Object = Mapping[str, Any]
Path = tuple[str | int, ...]


class Key(NamedTuple):
    """Identifies an object; without the version of its API, because one object has several."""

    group: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, item: Object) -> "Key":
        """The key of an object that carries apiVersion and kind."""
        group, _, _ = item["apiVersion"].rpartition("/")
        metadata = item["metadata"]
        return cls(group, item["kind"], metadata.get("namespace", ""), metadata["name"])

    @property
    def kind_and_group(self) -> str:
        """`Pod`, or `Deployment.apps` for a named group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind_and_group, self.namespace, self.name) if part)


World = Mapping[Key, Object]


class Missing:
    """The value on the side that lacks a field."""

    def __repr__(self) -> str:
        return "(nothing)"


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """Fields that may differ, subtrees included.

    Attributes:
        name: what the summary and the documentation call it.
        reason: why a restore leaves this difference.
        paths: each a path whose element `*` stands for any one element.
        kinds: `Kind` or `Kind.group`; empty means every kind.
        everywhere: true for differences that every restored object has.
        applies: a further condition on (object before, path).
    """

    name: str
    reason: str
    paths: Sequence[Path]
    kinds: frozenset[str] = frozenset()
    everywhere: bool = False
    applies: Callable[[Object, Path], bool] = lambda _item, _path: True

    def covers(self, kind: str, item: Object, path: Path) -> bool:
        """Whether a difference of this object at this path is the documented one."""
        if self.kinds and kind not in self.kinds:
            return False
        return any(_matches(pattern, path) for pattern in self.paths) and self.applies(item, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRule:
    """Objects that may be missing afterwards, or new."""

    name: str
    reason: str
    applies: Callable[[Object, World], bool]
    """A condition on the object and the world after the restore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Everything that a restore may change."""

    fields: Sequence[FieldRule] = ()
    missing: Sequence[ObjectRule] = ()
    new: Sequence[ObjectRule] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field of one object, or a whole object when the path is empty. `rule` is empty if unexplained."""

    key: Key
    path: Path
    before: Any
    after: Any
    rule: str = ""
    everywhere: bool = False

    def __str__(self) -> str:
        if not self.path:
            return f"{self.key}: {'missing' if self.after is MISSING else 'was not there before'}"
        return f"{self.key}: {format_path(self.path)}: {_short(self.before)} became {_short(self.after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """Counts of one kind. `different` counts objects with a difference that not every object has."""

    kind: str
    before: int = 0
    lost: int = 0
    back: int = 0
    different: int = 0
    unexplained: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of a comparison."""

    rows: Sequence[KindRow]
    differences: Sequence[Difference]

    @property
    def unexplained(self) -> list[Difference]:
        """The differences that no rule covers."""
        return [difference for difference in self.differences if not difference.rule]


def field_differences(before: Any, after: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Yield (path, before, after) for each leaf that differs.

    A missing map counts as an empty one as soon as the other side has something in it, so that the report
    names the entries. Numbers must agree in type too: 1, 1.0 and true are three values.
    """
    left, right = _as_map(before, after), _as_map(after, before)
    if left is not None and right is not None:
        for key in [*left, *(key for key in right if key not in left)]:
            yield from field_differences(left.get(key, MISSING), right.get(key, MISSING), (*path, key))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            yield from field_differences(_at(before, index), _at(after, index), (*path, index))
    elif type(before) is not type(after) or before != after:
        yield path, before, after


def compare_objects(before: Object, after: Object, rules: Rules) -> list[Difference]:
    """Compare two states of one object."""
    key = Key.of(before)
    found: list[Difference] = []
    for path, old, new in field_differences(before, after):
        rule = next((r for r in rules.fields if r.covers(key.kind_and_group, before, path)), None)
        found.append(
            Difference(
                key=key,
                path=path,
                before=old,
                after=new,
                rule=rule.name if rule else "",
                everywhere=rule is not None and rule.everywhere,
            )
        )
    return found


def compare_worlds(before: World, destroyed: World, after: World, rules: Rules) -> Comparison:
    """Compare a world before a loss and after the restore.

    Args:
        destroyed: the same cluster in between, to count the objects that were really lost. An object that
            has the same uid there was not lost.
    """
    differences: list[Difference] = []
    for key, item in before.items():
        if key in after:
            differences += compare_objects(item, after[key], rules)
        else:
            differences.append(_object_difference(key, item, MISSING, rules.missing, after))
    for key, item in after.items():
        if key not in before:
            differences.append(_object_difference(key, MISSING, item, rules.new, after))
    return Comparison(rows=_rows(before, destroyed, after, differences), differences=differences)


def format_path(path: Path) -> str:
    """Write a path so that labels with dots stay readable: `metadata.labels[a.b/c]`."""
    text = ""
    for part in path:
        plain = isinstance(part, str) and part.replace("_", "").isalnum()
        text += f".{part}" if plain else f"[{part}]"
    return text.removeprefix(".")


def _object_difference(
    key: Key, before: Object | Missing, after: Object | Missing, rules: Sequence[ObjectRule], world: World
) -> Difference:
    item = after if isinstance(before, Missing) else before
    assert not isinstance(item, Missing)
    rule = next((rule.name for rule in rules if rule.applies(item, world)), "")
    return Difference(key=key, path=(), before=before, after=after, rule=rule)


def _rows(before: World, destroyed: World, after: World, differences: list[Difference]) -> list[KindRow]:
    kept = {key for key, item in destroyed.items() if key in before and _uid(item) == _uid(before[key])}
    counts: dict[str, Counter[str]] = {key.kind_and_group: Counter() for key in before}
    for key in before:
        row = counts[key.kind_and_group]
        row["before"] += 1
        row["lost"] += key not in kept
        row["back"] += key not in kept and key in after
    for key in {difference.key for difference in differences if not difference.everywhere}:
        counts.setdefault(key.kind_and_group, Counter())["different"] += 1
    for key in {difference.key for difference in differences if not difference.rule}:
        counts[key.kind_and_group]["unexplained"] += 1
    return [KindRow(kind=kind, **counts[kind]) for kind in sorted(counts)]


def _matches(pattern: Path, path: Path) -> bool:
    if len(path) < len(pattern):
        return False
    return all(wanted in ("*", part) for wanted, part in zip(pattern, path, strict=False))


def _as_map(value: Any, other: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value if value or not isinstance(other, Missing) else None
    return {} if isinstance(value, Missing) and isinstance(other, Mapping) and other else None


def _at(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else MISSING


def _uid(item: Object) -> Any:
    return item["metadata"].get("uid")


def _short(value: Any, limit: int = 100) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
