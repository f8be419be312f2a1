"""How much a tenant's spec may ask for. Pure. (docs/spec: NAC 17 A32)

A run compares every kind with every name, every pod with every hook and every object with every selector, and
all tenants share the server that does it: the work that a spec can cause is limited, and not only its bytes.
"""

from typing import Any

from pinnace.api.nonadmin.restore_limits import (
    MAX_HOOKS,
    MAX_ORDERED,
    MAX_PATTERNS,
    MAX_SELECTORS,
    MAX_SPEC_BYTES,
    MAX_VALUES,
)
from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.selection.names import is_glob
from pinnace.nonadmin.objects import is_too_large


def size_problem(spec: JSONObject, prefix: str) -> str:
    """Why a spec is refused, as it asks for too much; empty if not.

    Args:
        prefix: the name of the spec, as messages have it.
    """
    if is_too_large(spec):
        return f"{prefix} is larger than {MAX_SPEC_BYTES} bytes"
    ordered = sum(each.count(",") + 1 for each in _texts(mapping(spec, "orderedResources")))
    counts = {
        ".orLabelSelectors": ("entries", len(listed(spec, "orLabelSelectors")), MAX_SELECTORS),
        ".hooks.resources": ("entries", len(listed(spec, "hooks", "resources")), MAX_HOOKS),
        ".orderedResources": ("objects", ordered, MAX_ORDERED),
        "": ("values", _values(spec), MAX_VALUES),
    }
    for field, (what, count, most) in counts.items():
        if count > most:
            return f"{prefix}{field} has {count} {what}, at most {most} are allowed"
    characters = sum(
        len(each)
        for name in spec
        if name.endswith("Resources")
        for each in _texts(spec[name])
        if is_glob(each)
    )
    if characters > MAX_PATTERNS:
        return (
            f"{prefix} has patterns of {characters} characters together, at most {MAX_PATTERNS} are allowed"
        )
    return ""


def _values(part: Any) -> int:
    """The number of values in a part of a spec, however deep."""
    waiting, count = [part], 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
        else:
            count += 1
    return count


def _texts(part: Any) -> list[str]:
    found = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [text(each) for each in found]
