"""The warnings and errors of a log, for `<backup>-results.gz`. (docs/spec: BEY 3.4)"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pinnace.notices.notice import OWN_PART, Notice, to_json

MOST_MESSAGES: Final = 10_000
"""The limit for each severity: memory is bounded even if every object of a cluster fails. The log has all."""

_PARTS: Final = ("resource", "name")


class RunResults:
    """The messages of both severities, by namespace."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[str, Notice, Mapping[str, str]]]] = {"warnings": [], "errors": []}
        self._more = {"warnings": 0, "errors": 0}

    def add(self, severity: str, notice: Notice, error: object, fields: Mapping[str, object]) -> None:
        """Add a line of the log; `severity` is `warnings` or `errors`."""
        found = self._found[severity]
        if len(found) >= MOST_MESSAGES:
            self._more[severity] += 1
            return
        parts = [f" {name}: /{fields[name]}" for name in _PARTS if fields.get(name)]
        parts.append(f" message: /{notice}")
        if error:
            parts.append(f" error: /{error}")
        facts = {name: str(fields[name]) for name in _PARTS if fields.get(name)}
        text = notice.saying("".join(parts))
        found.append((str(fields.get("namespace") or ""), text, facts))

    def to_dict(self, hide: Callable[[str], str] | None = None) -> dict[str, Any]:
        """The JSON form; `hide` removes from each text the parts that its reader may not see.

        Velero reads `errors` and `warnings`, lists of texts; `pinnace` has the same with codes and facts.
        """
        hidden = hide or str
        parts = {severity: self._severity(severity, hidden) for severity in ("errors", "warnings")}
        notices = [
            to_json(notice, severity.removesuffix("s"), namespace, facts=facts, hide=hidden)
            for severity in ("errors", "warnings")
            for namespace, notice, facts in self._found[severity]
        ]
        return {**parts, OWN_PART: {"notices": notices}} if notices else parts

    def _severity(self, severity: str, hide: Callable[[str], str]) -> dict[str, Any]:
        velero: list[str] = []
        namespaces: dict[str, list[str]] = {}
        for namespace, text, _ in self._found[severity]:
            (namespaces.setdefault(hide(namespace), []) if namespace else velero).append(hide(text))
        if more := self._more[severity]:
            velero.append(f" message: /{more} more {severity}: see the log of the backup")
        parts: dict[str, Any] = {}
        if velero:
            parts["velero"] = velero
        if namespaces:
            parts["namespaces"] = dict(sorted(namespaces.items()))
        return parts
