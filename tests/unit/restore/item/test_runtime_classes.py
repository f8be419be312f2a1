"""What a RuntimeClass put on a pod in the old cluster."""

from typing import Any

import orjson
import pytest

from pinnace.api.objects import JSONObject
from pinnace.archive.errors import MissingItem
from pinnace.restore.item.runtime_classes import forget_scheduling

TAINT = {"key": "kata", "operator": "Exists"}


class Shelf:
    """A backup with one class, `kata`."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def read(self, group_resource: str, namespace: str, name: str) -> bytes:
        if (group_resource, namespace, name) != ("runtimeclasses.node.k8s.io", "", "kata"):
            raise MissingItem(name)
        metadata = {"name": "kata"}
        return orjson.dumps(
            {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": metadata, **self._fields}
        )


def scheduled(pod: JSONObject, **fields: Any) -> JSONObject:
    forget_scheduling(pod, Shelf(**fields))  # type: ignore[arg-type]
    return pod


def a_pod(name: str = "kata") -> JSONObject:
    spec = {"nodeSelector": {"pool": "kata", "disk": "fast"}, "tolerations": [{"key": "own"}, TAINT]}
    return {"spec": {"runtimeClassName": name, **spec}}


@pytest.mark.found("O17c")
def test_only_what_the_class_says_is_removed() -> None:
    scheduling = {"nodeSelector": {"pool": "kata", "disk": "slow"}, "tolerations": [TAINT]}

    assert scheduled(a_pod(), scheduling=scheduling)["spec"] == {
        "runtimeClassName": "kata",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "own"}],
    }


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("other", {}),
        ("", {}),
        ("kata", {}),
        ("kata", {"scheduling": "none"}),
        ("kata", {"scheduling": {"nodeSelector": ["pool"], "tolerations": TAINT}}),
    ],
    ids=["not in the backup", "no class", "no scheduling", "malformed", "malformed fields"],
)
def test_all_else_stays(name: str, fields: JSONObject) -> None:
    assert scheduled(a_pod(name), **fields) == a_pod(name)
    malformed: JSONObject = {"spec": {"runtimeClassName": name, "nodeSelector": "x", "tolerations": "y"}}
    assert scheduled(malformed, **fields)["spec"]["nodeSelector"] == "x"
