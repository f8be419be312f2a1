"""Namespaces of a backup by their labels. (docs/adr/123)"""

from typing import Any, cast

import pytest

from pinnace.api.labels import NAMESPACE_SELECTOR
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.kube.errors import Forbidden
from pinnace.kube.reading import ObjectLister
from pinnace.operations.namespace_choice import NamespaceChoiceError, choose_namespaces

CLUSTER = {"a1": {"team": "a"}, "a2": {"team": "a", "env": "dev"}, "b1": {"team": "b"}, "none": {}}


class Lister:
    """Lists the namespaces of a cluster by their labels, or refuses."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def list_all(self, _resource: Any, *, label_selector: str = "") -> list[JSONObject]:
        if self._error is not None:
            raise self._error
        selector = Selector.parse(label_selector)
        return [{"metadata": {"name": name}} for name, labels in CLUSTER.items() if selector.matches(labels)]


async def chosen(selector: str, *, error: Exception | None = None, **spec: Any) -> list[str]:
    backup = Backup(
        metadata=ObjectMeta(name="b", annotations={NAMESPACE_SELECTOR: selector} if selector else {}),
        spec=BackupSpec(**spec),
    )
    await choose_namespaces(cast(ObjectLister, Lister(error)), backup)
    return backup.spec.included_namespaces


@pytest.mark.parametrize(
    ("selector", "spec", "expected"),
    [
        ("", {}, []),
        ("team=a", {}, ["a1", "a2"]),
        ("team=a,env!=dev", {}, ["a1"]),
        ("team", {"included_namespaces": ["*"]}, ["a1", "a2", "b1"]),
        ("team=a", {"included_namespaces": ["*2", "b1"]}, ["a2"]),
        ("team", {"excluded_namespaces": ["a*"]}, ["b1"]),
    ],
)
async def test_labels_and_lists_choose_together(
    selector: str, spec: dict[str, Any], expected: list[str]
) -> None:
    assert await chosen(selector, **spec) == expected


@pytest.mark.parametrize(
    ("selector", "error", "problem"),
    [
        ("team=z", None, "no included namespace has the labels team=z"),
        ("team in", None, "is no label selector"),
        ("team=a", Forbidden(403, reason="Forbidden", message="no"), "needs the list of namespaces"),
    ],
)
async def test_a_selector_that_chooses_nothing_is_an_error_and_not_every_namespace(
    selector: str, error: Exception | None, problem: str
) -> None:
    with pytest.raises(NamespaceChoiceError, match=problem):
        await chosen(selector, error=error)
