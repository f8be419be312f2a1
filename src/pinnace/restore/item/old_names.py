"""Collects the restored objects that still name a mapped namespace by its old name, for one warning.

`namespace_references` decides what names one. (docs/spec: RST 16; docs/adr/084)
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pinnace.api.kinds import CONTROLLER_REVISIONS, JOBS, PODS, REPLICA_SETS, group_resources
from pinnace.api.objects import objects
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.values.counts import first_names
from pinnace.archive.eventlog import EventLog
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.item.applying import Applied, Prepared
from pinnace.restore.item.namespace_references import naming_fields
from pinnace.restore.selection.reading import decode

NAMED_IN_WARNING: Final = 100
"""How many objects the warning names; the log names all."""

_REMADE: Final = frozenset(group_resources(PODS, REPLICA_SETS, CONTROLLER_REVISIONS, JOBS))
"""Kinds that are made again from their owners, which are named instead."""

_LEFT: Final = frozenset({Outcome.UNCHANGED, Outcome.DIFFERENT})
"""With these outcomes the cluster keeps its own version of an object."""


class OldNames:
    """The objects of one restore that name a namespace as it was called in the backup.

    Args:
        mapping: of namespaces in the backup to those that they are restored into.
    """

    def __init__(self, mapping: Mapping[str, str], log: EventLog) -> None:
        self._mapping = {old: new for old, new in mapping.items() if old != new}
        self._log = log
        self._named: list[str] = []
        self._count = 0

    def look_at(self, sent: Prepared, applied: Applied) -> None:
        """Note an object if it names a mapped namespace as it is in the cluster now."""
        if not self._mapping or applied.outcome is Outcome.FAILED or _is_remade(sent):
            return
        item = sent.item
        if applied.outcome in _LEFT and applied.in_cluster is not None:
            item = applied.in_cluster
        fields = naming_fields(sent.ref.group_resource, item, self._mapping.keys())
        if not fields:
            return
        self._count += 1
        self._log.info(
            "The object names a mapped namespace by its old name", fields=", ".join(fields), **sent.ref.fields
        )
        if len(self._named) < NAMED_IN_WARNING:
            more = f" and {len(fields) - 1} more" if len(fields) > 1 else ""
            self._named.append(f"{sent.ref.id} ({fields[0]}{more})")

    def warnings(self) -> Iterator[Notice]:
        """One warning that names the objects; none if there is no such object."""
        if not self._count:
            return
        named = "; ".join(sorted(self._named))
        left = self._count - len(self._named)
        more = f"; and {left} more, see the log" if left else ""
        what, verb = ("object", "names") if self._count == 1 else ("objects", "name")
        yield Notice(
            Code.OLD_NAMESPACE_NAMED,
            # The advice comes before the names, as a summary cuts long lines.
            f"{self._count} {what} still {verb} a mapped namespace by its old name, and so the original"
            f" ({_pairs(self._mapping)}). Change what should mean the copy, or restore it with rules of"
            f" --resource-modifier-configmap: {named}{more}",
        )


def _is_remade(sent: Prepared) -> bool:
    if sent.ref.group_resource not in _REMADE or b'"ownerReferences"' not in sent.raw:
        return False
    owners = objects(decode(sent.ref, sent.raw), "metadata", "ownerReferences")
    return any(owner.get("controller") is True for owner in owners)


def _pairs(mapping: Mapping[str, str]) -> str:
    return first_names([f"{old} is now {new}" for old, new in sorted(mapping.items())], 5)
