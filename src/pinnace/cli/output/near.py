"""What to say where no object has the name that was asked for, or where there are none at all. Pure."""

from collections.abc import Iterable

from pinnace.api.values.near import did_you_mean, near_names

_NAMES_SHOWN = 5
_THINGS = {"backupstoragelocations": "backup locations", "volumesnapshotlocations": "snapshot locations"}


def instead_of(name: str, names: Iterable[str], things: str, place: str) -> str:
    """The end of a message that `name` was not found: near names, else those that there are.

    Args:
        things: the plural of their resource.
        place: where was looked.
    """
    known = sorted(set(names))
    things = _THINGS.get(things, things)
    if near := near_names(name, known):
        return did_you_mean(near)
    if not known:
        return f"; there are no {things} in {place}"
    shown, more = ", ".join(known[:_NAMES_SHOWN]), len(known) - _NAMES_SHOWN
    return f"; {place} has {shown}" + (f" and {more} more" if more > 0 else "")


def not_of_this_form(entry: str, separator: str) -> str:
    """What is wrong with an entry of a `key<separator>value` flag, and how it was meant, if that shows."""
    other = "=" if separator == ":" else ":"
    key, found, value = entry.partition(other)
    text = f'error parsing "{entry}"'
    if found and key and value:
        return f"{text}: write {key}{separator}{value}, with {separator!r} instead of {other!r}"
    return f"{text}: write KEY{separator}VALUE" if entry else text
