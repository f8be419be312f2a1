"""Warnings and errors of a restore, grouped by namespace, and the results file made of them.

Only these lists are counted in `status.warnings` and `status.errors`, never log lines. (docs/spec: RST 22)
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from pinnace.archive.eventlog import EventLog


class ResultMessages(msgspec.Struct):
    """Messages of one severity: those of the restore itself, of cluster-scoped items, and of each namespace.

    `namespaces` is keyed by the target namespace.
    """

    velero: list[str] = msgspec.field(default_factory=list)
    cluster: list[str] = msgspec.field(default_factory=list)
    namespaces: dict[str, list[str]] = msgspec.field(default_factory=dict)

    def add(self, namespace: str, message: str) -> None:
        """Add a message to its namespace, or to the cluster if the namespace is empty."""
        if namespace:
            self.namespaces.setdefault(namespace, []).append(message)
        else:
            self.cluster.append(message)

    def add_velero(self, *messages: str) -> None:
        """Add messages that concern the restore itself."""
        self.velero.extend(messages)

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

    def messages(self) -> Iterator[tuple[str, str]]:
        """All messages, each with its namespace, which is empty for the first two parts."""
        for message in (*self.velero, *self.cluster):
            yield "", message
        for namespace, messages in self.namespaces.items():
            for message in messages:
                yield namespace, message

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: without empty parts, namespaces sorted."""
        parts: dict[str, Any] = {}
        if self.velero:
            parts["velero"] = self.velero
        if self.cluster:
            parts["cluster"] = self.cluster
        if self.namespaces:
            parts["namespaces"] = dict(sorted(self.namespaces.items()))
        return parts


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
        """The results file as JSON, to be written by the store. (docs/spec: RST 22, STO 4)"""
        return {"errors": self.errors.to_dict(), "warnings": self.warnings.to_dict()}


def log_results(log: EventLog, results: Results, **fields: str) -> None:
    """Write all results to the log.

    Args:
        fields: put on every line.
    """
    for write, result in ((log.warning, results.warnings), (log.error, results.errors)):
        for namespace, message in result.messages():
            write(message, namespace=namespace, **fields)
