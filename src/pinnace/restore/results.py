"""Warnings and errors of a restore, grouped by namespace, and the results file made of them.

Only these lists are counted in `status.warnings` and `status.errors`, never log lines. (docs/spec: RST 22)
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from pinnace.archive.eventlog import EventLog
from pinnace.notices.notice import OWN_PART, Notice, to_json

MOST_NOTICES: Final = 10_000
"""The notices of each severity in the file: a restore over a hundred thousand objects that differ would else
write more values than readers take from a location. The lists of texts have all."""


class ResultMessages(msgspec.Struct):
    """Messages of one severity: those of the restore itself, of cluster-scoped items, and of each namespace.

    `namespaces` is keyed by the target namespace.
    """

    velero: list[Notice] = msgspec.field(default_factory=list)
    cluster: list[Notice] = msgspec.field(default_factory=list)
    namespaces: dict[str, list[Notice]] = msgspec.field(default_factory=dict)

    def add(self, namespace: str, notice: Notice) -> None:
        """Add a message to its namespace, or to the cluster if the namespace is empty."""
        if namespace:
            self.namespaces.setdefault(namespace, []).append(notice)
        else:
            self.cluster.append(notice)

    def add_velero(self, *notices: Notice) -> None:
        """Add messages that concern the restore itself."""
        self.velero.extend(notices)

    def merge(self, other: "ResultMessages") -> None:
        """Append the messages of the other."""
        self.velero.extend(other.velero)
        self.cluster.extend(other.cluster)
        for namespace, messages in other.namespaces.items():
            self.namespaces.setdefault(namespace, []).extend(messages)

    @property
    def count(self) -> int:
        """How many messages there are in all three parts."""
        return len(self.velero) + len(self.cluster) + sum(map(len, self.namespaces.values()))

    def notices(self) -> Iterator[tuple[str, Notice]]:
        """All notices, each with its namespace, which is empty for the first two parts."""
        for notice in (*self.velero, *self.cluster):
            yield "", notice
        for namespace, notices in self.namespaces.items():
            for notice in notices:
                yield namespace, notice

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: without empty parts, namespaces sorted."""
        parts: dict[str, Any] = {}
        if self.velero:
            parts["velero"] = _texts(self.velero)
        if self.cluster:
            parts["cluster"] = _texts(self.cluster)
        if self.namespaces:
            parts["namespaces"] = {name: _texts(told) for name, told in sorted(self.namespaces.items())}
        return parts


def _texts(notices: Iterable[Notice]) -> list[str]:
    return [str(notice) for notice in notices]


class Results(msgspec.Struct):
    """Both severities of one restore, or of one item of it."""

    warnings: ResultMessages = msgspec.field(default_factory=ResultMessages)
    errors: ResultMessages = msgspec.field(default_factory=ResultMessages)

    def merge(self, other: "Results") -> None:
        """Append the messages of the other."""
        self.warnings.merge(other.warnings)
        self.errors.merge(other.errors)

    def merge_all(self, others: Iterable["Results"]) -> None:
        """Append several, in their order."""
        for other in others:
            self.merge(other)

    @property
    def empty(self) -> bool:
        """Whether nothing was reported; quicker than `count`, as it is asked for every item."""
        return not any(
            (result.namespaces or result.cluster or result.velero) for result in (self.warnings, self.errors)
        )

    def to_dict(self) -> dict[str, Any]:
        """The results file as JSON, to be written by the store. (docs/spec: RST 22, STO 4)

        Velero reads `errors` and `warnings`, lists of texts; `pinnace` has the first of each severity again,
        with codes and facts.
        """
        notices = [
            to_json(notice, severity, namespace)
            for severity, told in (("error", self.errors), ("warning", self.warnings))
            for namespace, notice in islice(told.notices(), MOST_NOTICES)
        ]
        parts = {"errors": self.errors.to_dict(), "warnings": self.warnings.to_dict()}
        return {**parts, OWN_PART: {"notices": notices}} if notices else parts


def log_results(log: EventLog, results: Results, **fields: str) -> None:
    """Write all results to the log.

    Args:
        fields: put on every line.
    """
    for write, result in ((log.warning, results.warnings), (log.error, results.errors)):
        for namespace, notice in result.notices():
            write(notice, namespace=namespace, **fields)
