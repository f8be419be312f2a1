"""The warnings and errors of a log, for `<backup>-results.gz`. (docs/spec: BEY 3.4)"""

from collections.abc import Callable, Mapping
from typing import Any, Final

MOST_MESSAGES: Final = 10_000
"""The limit for each severity: memory is bounded even if every object of a cluster fails. The log has all."""

_PARTS: Final = ("resource", "name")


class RunResults:
    """The messages of both severities, by namespace."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[str, str]]] = {"warnings": [], "errors": []}
        self._more = {"warnings": 0, "errors": 0}

    def add(self, severity: str, message: str, error: object, fields: Mapping[str, object]) -> None:
        """Add a line of the log; `severity` is `warnings` or `errors`."""
        found = self._found[severity]
        if len(found) >= MOST_MESSAGES:
            self._more[severity] += 1
            return
        parts = [f" {name}: /{fields[name]}" for name in _PARTS if fields.get(name)]
        parts.append(f" message: /{message}")
        if error:
            parts.append(f" error: /{error}")
        found.append((str(fields.get("namespace") or ""), "".join(parts)))

    def to_dict(self, hide: Callable[[str], str] | None = None) -> dict[str, Any]:
        """The JSON form; `hide` removes from each text the parts that its reader may not see."""
        return {severity: self._severity(severity, hide or str) for severity in ("errors", "warnings")}

    def _severity(self, severity: str, hide: Callable[[str], str]) -> dict[str, Any]:
        velero: list[str] = []
        namespaces: dict[str, list[str]] = {}
        for namespace, text in self._found[severity]:
            (namespaces.setdefault(hide(namespace), []) if namespace else velero).append(hide(text))
        if more := self._more[severity]:
            velero.append(f" message: /{more} more {severity}: see the log of the backup")
        parts: dict[str, Any] = {}
        if velero:
            parts["velero"] = velero
        if namespaces:
            parts["namespaces"] = dict(sorted(namespaces.items()))
        return parts
