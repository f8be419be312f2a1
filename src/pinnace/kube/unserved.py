"""Resource names that a cluster does not serve, with suggestions for the intended name. Pure.

A filter that names a resource which is not served selects nothing. Without a message, a misspelt filter
makes an empty backup or restore that looks like a success.
"""

from collections.abc import Iterable

import msgspec

from pinnace.api.selection.names import EVERYTHING, KnownNames, is_glob
from pinnace.api.values.near import Advice, did_you_mean
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import UnknownResource


class UnservedName(msgspec.Struct, frozen=True):
    """A name in a filter that selects no resource of the cluster; `text` says why, with near matches."""

    name: str
    text: str

    @property
    def is_pattern(self) -> bool:
        """Whether the name is a glob, which may rightly match nothing."""
        return is_glob(self.name)


def unserved_names(names: Iterable[str], discovery: Discovery) -> list[UnservedName]:
    """Return the names that select no resource which can be backed up, sorted, each once."""
    wanted = sorted({name for name in names if name not in ("", EVERYTHING)})
    look_up = _LookUp(discovery)
    return [found for name in wanted if (found := look_up.unserved(name)) is not None]


class _LookUp:
    """Looks up names; the first misspelt ones get advice, as a list may have thousands of them."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self._kinds = KnownNames(resource.group_resource for resource in discovery.resources)
        self._served = {resource.name for resource in discovery.all_resources}
        self._saved = {resource.name for resource in discovery.resources}
        self._advice = Advice(_names(discovery))
        self._is_incomplete = bool(discovery.warnings)

    def unserved(self, name: str) -> UnservedName | None:
        if is_glob(name):
            if self._kinds.has(name):
                return None
            return UnservedName(name, f"the pattern {name!r} matches no resource that the cluster serves")
        try:
            self._discovery.resolve(name)
        except UnknownResource:
            return UnservedName(name, self._reason(name))
        return None

    def _reason(self, name: str) -> str:
        plural = name.partition(".")[0].lower()
        if plural in self._served and plural not in self._saved:
            return (
                f"the resource {name!r} cannot be backed up: it cannot be listed, read, created and deleted"
            )
        text = f"the cluster serves no resource {name!r}{did_you_mean(self._advice.near(name))}"
        if self._is_incomplete:
            self._is_incomplete = False  # once is enough: the texts of all failures are long
            text += f" (not all groups could be discovered: {self._discovery.gaps})"
        return text


def _names(discovery: Discovery) -> Iterable[str]:
    """Every name of every resource, the plain ones first."""
    names: dict[str, None] = {}
    for resource in discovery.resources:
        names.setdefault(resource.name)
    for resource in discovery.resources:
        names.setdefault(resource.singular_name or resource.kind.lower())
        names.setdefault(resource.group_resource)
        for short in resource.short_names:
            names.setdefault(short)
    return names
