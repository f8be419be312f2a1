"""What `install --apply` makes of the API server's book-keeping."""

import pytest

from pinnace.api.objects import JSONObject
from pinnace.installing.apply import MANAGER, adoption, conflicts


def entry(manager: str, operation: str = "Update", **more: str) -> JSONObject:
    return {"manager": manager, "operation": operation, **more}


@pytest.mark.parametrize(
    ("entries", "index"),
    [
        (None, None),
        ([entry("kubectl-edit")], None),
        ([entry("kubectl-edit"), entry(MANAGER)], 1),
        ([entry(MANAGER, subresource="status")], None),
        ([entry(MANAGER), entry(MANAGER, "Apply")], None),
    ],
    ids=["no book", "not ours", "created by us", "a status", "applied before"],
)
def test_fields_of_an_earlier_install_become_applied_and_no_others(
    entries: list[JSONObject] | None, index: int | None
) -> None:
    patch = adoption({"resourceVersion": "7", "managedFields": entries})

    expected = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": f"/metadata/managedFields/{index}/operation", "value": "Apply"},
    ]
    assert patch == ([] if index is None else expected)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {"details": {"causes": [{"message": 'conflict with "me" using apps/v1', "field": ".spec.x"}]}},
            [".spec.x, which me had set"],
        ),
        ({"details": {"causes": [{"message": "odd"}]}}, ["a field, which another program had set"]),
        ({}, []),
    ],
    ids=["named", "in other words", "nothing"],
)
def test_conflicts_are_reported_with_field_and_manager(status: JSONObject, said: list[str]) -> None:
    assert conflicts(status) == said
