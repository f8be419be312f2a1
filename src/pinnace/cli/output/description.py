"""Descriptions of objects, as data that is printed as text and as JSON. Pure.

(docs/spec: CLI 2.4, BEY 8)

The objects of a location are hostile input: what is missing or of another type counts as empty.
"""

import msgspec

from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.cli.output import cells


class NameLists(msgspec.Struct, frozen=True):
    """Two lists of names, such as includedNamespaces and excludedNamespaces."""

    included: list[str]
    excluded: list[str]


def choice(owner: JSONObject, what: str) -> NameLists:
    """The lists of a spec or of a hook about `what`."""
    return NameLists(_names(owner, f"included{what}"), _names(owner, f"excluded{what}"))


def _names(owner: JSONObject, key: str) -> list[str]:
    return [str(name) for name in listed(owner, key)]


class Filters(msgspec.Struct, frozen=True):
    """Which objects a backup or restore is about.

    Attributes:
        cluster_scoped: `auto`, `included` or `excluded`.
        selectors: alternatives; one has to match.
    """

    namespaces: NameLists
    resources: NameLists
    cluster_scoped: str
    selector: str
    selectors: list[str]


def filters(spec: JSONObject) -> Filters:
    """The filters of a spec."""
    return Filters(
        namespaces=choice(spec, "Namespaces"),
        resources=choice(spec, "Resources"),
        cluster_scoped=cells.tristate(spec.get("includeClusterResources"), yes="included", no="excluded"),
        selector=cells.selector(spec.get("labelSelector")),
        selectors=[
            cells.selector(one) if isinstance(one, dict) else "<error>"
            for one in listed(spec, "orLabelSelectors")
        ],
    )


class RunState(msgspec.Struct, frozen=True):
    """How far a run is. `known` is false where its numbers are missing, and then counted as 0."""

    running: bool
    known: bool
    total: int
    done: int
    activity: JSONObject


class Head(msgspec.Struct, frozen=True):
    """The common part of the descriptions of all kinds.

    Attributes:
        foreign: a note about a phase that Pinnace does not set.
        errors, warnings: their numbers.
        progress: None before a run has any.
        hooks: how many were attempted, and how many of them failed.
    """

    metadata: JSONObject
    phase: str
    foreign: str
    validation_errors: list[str]
    failure_reason: str
    started: str
    completed: str
    errors: int
    warnings: int
    progress: RunState | None
    hooks: tuple[int, int]


def head(obj: JSONObject, done: str = "") -> Head:
    """What an object says of itself; `done` is the key of the number of items that are done."""
    status = cells.status(obj)
    hooks = mapping(status, "hookStatus")
    return Head(
        metadata=mapping(obj, "metadata"),
        phase=cells.phase(obj),
        foreign=cells.foreign_phase(obj),
        validation_errors=listed(status, "validationErrors"),
        failure_reason=text(status, "failureReason"),
        started=cells.local_time(text(status, "startTimestamp") or None, "<n/a>"),
        completed=cells.local_time(text(status, "completionTimestamp") or None, "<n/a>"),
        errors=status.get("errors") or 0,
        warnings=status.get("warnings") or 0,
        progress=None if status.get("progress") is None else _progress(obj, done),
        hooks=(hooks.get("hooksAttempted") or 0, hooks.get("hooksFailed") or 0),
    )


def _progress(obj: JSONObject, done: str) -> RunState:
    status = cells.status(obj)
    numbers = mapping(status, "progress")
    return RunState(
        running=cells.phase(obj) == "InProgress",
        known=bool(numbers),
        total=numbers.get("totalItems") or 0,
        done=numbers.get(done) or 0,
        activity=mapping(status, "activity"),
    )
