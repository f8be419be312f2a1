"""Why a rule of resource modifiers changed nothing, for a warning. Pure. (docs/spec: BEY 5.3)

A rule that matches no object has no effect that anybody sees: a kind without its group, a singular, the name
of the new namespace. A restore that ends without a word would look as if the rule had been applied.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from pinnace.api.values.near import did_you_mean, near_names
from pinnace.restore.modifiers.rules import Rule


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """The kinds and namespaces of a backup.

    Attributes:
        kinds: `plural.group`, or `plural` for core kinds.
        namespaces: those with objects of a kind; `namespaces("namespaces")` names the Namespaces themselves.
        canonical: the `plural.group` of a kind, singular or short name; the name itself if it is unknown.
        mapping: of the restore, from namespaces in the backup to new ones.
    """

    kinds: Sequence[str]
    namespaces: Callable[[str], Sequence[str]]
    canonical: Callable[[str], str]
    mapping: Mapping[str, str]


def idle_warning(rule: Rule, tested: int, backup: BackedUp) -> str:
    """The warning for a rule that changed no object.

    Args:
        tested: how many objects met its conditions; for each of them a `test` among its patches failed.
    """
    return f"resource modifier rule {rule.number} changed nothing: {_reason(rule, tested, backup)}"


def _reason(rule: Rule, tested: int, backup: BackedUp) -> str:
    pattern = rule.resources.pattern
    if tested:
        objects = "the one object that meets its conditions" if tested == 1 else f"all {tested} objects"
        return f"its test failed for {objects}{'' if tested == 1 else ' that meet its conditions'}"
    kinds = [kind for kind in backup.kinds if rule.resources.matches(kind)]
    if not kinds:
        near = did_you_mean(_meant(pattern, backup))
        return (
            f"the backup has no objects of the kind {pattern!r} (conditions.groupResource is the plural"
            f" with its group, such as deployments.apps){near}"
        )
    homes = {name for kind in kinds for name in backup.namespaces(kind)}
    if homes and "" not in homes and not any(map(rule.namespaces.matches, homes)):
        old = sorted(name for name in homes if rule.namespaces.matches(backup.mapping.get(name, name)))
        names = ", ".join(rule.namespaces.includes)
        return (
            f"the backup has no objects of the kind {pattern!r} in the namespaces {names}"
            f" (conditions.namespaces are those in the backup){did_you_mean(old[:3])}"
        )
    return f"no object that meets its conditions ({', '.join(_conditions(rule))}) was restored"


def _conditions(rule: Rule) -> Iterator[str]:
    """The conditions of a rule that restrict it, in its own words."""
    yield f"groupResource {rule.resources.pattern}"
    if rule.namespaces.includes:
        yield f"namespaces {', '.join(rule.namespaces.includes)}"
    if rule.name is not None:
        yield f"resourceNameRegex {rule.name.pattern}"
    if not rule.labels.empty:
        yield "labelSelector"
    for test in rule.matches:
        yield f"{test.path} is {msgspec.json.encode(test.value).decode()}"


def _meant(pattern: str, backup: BackedUp) -> list[str]:
    """The kinds of the backup that may have been meant."""
    known = backup.canonical(pattern.lower())
    plain = backup.canonical(pattern.lower().partition(".")[0])
    certain = [kind for kind in (known, plain) if kind in backup.kinds]
    return certain[:1] or near_names(pattern, backup.kinds)
