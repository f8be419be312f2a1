"""What the answer of a driver about a snapshot is worth."""

from typing import Any

import pytest

from pinnace.api import labels
from pinnace.csi.looking import says_nothing

MADE = "2026-01-01T00:00:10Z"
MADE_NANOSECONDS = 1_767_225_610 * 10**9


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"readyToUse": True, "creationTime": MADE_NANOSECONDS - 61 * 10**9}, False),
        ({"readyToUse": True, "creationTime": MADE_NANOSECONDS + 5}, True),
        ({"readyToUse": True}, True),
        ({"readyToUse": False}, False),
        ({"error": {"message": "not found"}}, False),
        (None, False),
    ],
    ids=["older", "just now", "no time", "not ready", "error", "no answer"],
)
def test_ready_as_of_just_now_is_the_answer_of_a_driver_that_cannot_tell(
    status: dict[str, Any] | None, expected: bool
) -> None:
    metadata = {"creationTimestamp": MADE, "labels": {labels.VERIFICATION: "true"}}
    assert says_nothing({"metadata": metadata, "status": status}) == expected
    assert not says_nothing({"metadata": {"creationTimestamp": MADE}, "status": status})
