"""What became of each object, in the description of a restore. (docs/spec: BEY 3.5)"""

from typing import Any

import pytest

from pinnace.api.restore_outcomes import Outcome
from pinnace.cli.output.layout import Sheet
from pinnace.cli.restore.objects import resource_list, restored_objects
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.selection.reading import ItemKey


def shown(found: Any) -> list[str]:
    sheet = Sheet()
    resource_list(sheet, found)
    return [" ".join(line.split()) for line in sheet.render().splitlines() if line.strip()]


def outcomes() -> ItemOutcomes:
    made = ItemOutcomes()
    made.record("v1/Secret", ItemKey("secrets", "ns", "b"), Outcome.FAILED, "over quota")
    made.record("v1/Secret", ItemKey("secrets", "ns", "a"), Outcome.UNCHANGED)
    made.record("v1/Pod", ItemKey("pods", "ns", "p"), Outcome.SKIPPED, "it is complete")
    made.record("v1/Node", ItemKey("nodes", "", "n"), Outcome.CREATED)
    return made


def test_each_object_is_listed_with_its_outcome_and_the_reason() -> None:
    made = outcomes()
    assert shown(restored_objects(made.resource_list(), made.details())) == [
        "Objects:",
        "Created: 1",
        "Already there and the same: 1",
        "Left out: 1",
        "Failed: 1",
        "Resource List:",
        "v1/Node:",
        "- n(created)",
        "v1/Pod:",
        "- ns/p(skipped: it is complete)",
        "v1/Secret:",
        "- ns/a(unchanged)",
        "- ns/b(failed: over quota)",
    ]


def test_a_reason_of_several_lines_is_shown_as_one() -> None:
    made = ItemOutcomes()
    made.record(
        "v1/Pod", ItemKey("pods", "ns", "p"), Outcome.DIFFERENT, "is invalid:\n@@ -1 +1 @@\n-   a\n+   b\n"
    )

    lines = shown(restored_objects(made.resource_list(), made.details()))

    assert lines[-1] == "- ns/p(different: is invalid: @@ -1 +1 @@ - a + b)"


def test_a_tenants_restore_shows_outcomes_without_reasons() -> None:
    made = outcomes()
    found = restored_objects(made.resource_list(), made.details(with_reasons=False))
    assert "over quota" not in str(found)
    assert found.by_kind["v1/Secret"]["ns/b"] == "failed"


def test_a_restore_of_velero_is_listed_with_its_actions() -> None:
    found = restored_objects({"v1/Secret": ["ns/a(created)", "odd"], "v1/Pod": None}, None)
    assert shown(found) == ["Resource List:", "v1/Pod:", "v1/Secret:", "- ns/a(created)", "- odd"]


@pytest.mark.parametrize(
    "details",
    [
        [],
        {"groups": 1, "counts": []},
        {"groups": [{"outcome": 1, "objects": {"v1/Pod": 3}}]},
        {"counts": {"created": "x", "other": 3}},
    ],
)
def test_a_damaged_file_of_details_is_ignored(details: Any) -> None:
    found = restored_objects({"v1/Pod": ["ns/p(created)"]}, details)
    assert shown(found) == ["Resource List:", "v1/Pod:", "- ns/p(created)"]


def test_a_malformed_resource_list_is_refused() -> None:
    with pytest.raises(ValueError, match="arrays of names"):
        restored_objects({"v1/Pod": 3}, None)
