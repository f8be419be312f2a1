"""The outcome of each object of a restore, as `restore describe --details` lists it. (docs/spec: BEY 3.5)

Two files have it: Velero's resource list, and Pinnace's details with finer outcomes and reasons, which
restores of Velero and of older versions lack. Both come from a location and count as hostile input.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern

from pinnace.api.objects import JSONObject, listed, mapping, names_by_kind, objects, text
from pinnace.api.restore_outcomes import MEANINGS, Outcome
from pinnace.cli.output.layout import Sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredObjects:
    """The objects of a restore, each with its outcome.

    Attributes:
        by_kind: kind to titles (`ns1/web`), each with its outcome and reason as text.
        counts: how many objects have each outcome; empty if there is only Velero's file.
    """

    by_kind: Mapping[str, dict[str, str]]
    counts: Mapping[str, int] = field(default_factory=dict)


def restored_objects(resource_list: JSONObject | None, details: object) -> RestoredObjects:
    """Read the two files; `details` is None if there is none. The resource list is emptied.

    Raises:
        ValueError: the resource list has another form.
    """
    by_kind: dict[str, dict[str, str]] = {}
    for kind, entries in sorted(names_by_kind(resource_list).items()):
        entries.reverse()
        titles = by_kind[kind] = {}
        while entries:  # each entry goes as its title comes: there may be a million
            title, action = _with_action(entries.pop())
            titles[title] = action
    for group in objects(details, "groups"):
        outcome, reason = text(group, "outcome"), text(group, "reason")
        said = f"{outcome}: {reason}" if reason else outcome
        for kind in mapping(group, "objects"):
            for title in listed(group, "objects", kind):
                if title in by_kind.get(kind, ()):
                    by_kind[kind][title] = said
    counts = {
        name: number
        for name, number in mapping(details, "counts").items()
        if name in Outcome.__members__.values() and isinstance(number, int)
    }
    return RestoredObjects(by_kind=by_kind, counts=counts)


def _with_action(entry: str) -> tuple[str, str]:
    """`ns1/web(created)` as title and action."""
    title, bracket, action = entry.removesuffix(")").rpartition("(")
    return (title, intern(action)) if bracket else (entry, "")


def resource_list(sheet: Sheet, found: RestoredObjects | str) -> None:
    """Write the list, with a line for each object, which goes as its line comes: there may be a million.

    A str is the error of reading it.
    """
    sheet.line()
    if isinstance(found, str):
        sheet.field("Resource List", found)
        return
    if found.counts:
        sheet.line("Objects:")
        for outcome in Outcome:
            if number := found.counts.get(outcome):
                sheet.field(outcome_title(outcome), number, indent=1)
        sheet.line()
    sheet.line("Resource List:")
    sheet.outline(_outlined(found))


def outcome_title(outcome: Outcome) -> str:
    """The meaning of an outcome as a title."""
    return MEANINGS[outcome][:1].upper() + MEANINGS[outcome][1:]


def _outlined(found: RestoredObjects) -> Iterator[tuple[int, str]]:
    for kind, titles in found.by_kind.items():
        yield 1, f"{kind}:"
        names = sorted(titles, reverse=True)
        while names:
            title = names.pop()
            # The API server gives some reasons as a difference of many lines.
            said = " ".join(titles.pop(title).split())
            yield 2, f"- {title}({said})" if said else f"- {title}"
