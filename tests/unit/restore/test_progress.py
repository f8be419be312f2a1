"""The progress of a restore, and when it is published."""

from pinnace.restore.progress import PassCounts
from tests.unit.restore.world import (
    Harness,
    configmap,
    obj,
)


def test_the_estimate_is_what_is_done_and_what_is_to_come() -> None:
    progress = PassCounts()
    progress.begin_pass(10)
    progress.item_done(3)
    assert progress.total == 12
    progress.begin_pass(1)
    progress.item_done(4)
    assert progress.total == 4


async def test_at_the_end_both_numbers_are_the_restored_set(harness: Harness) -> None:
    complete = obj("Pod", "done", "ns-1", status={"phase": "Succeeded"})

    await harness.restore(configmap("a"), configmap("b"), complete)

    assert harness.numbers.published[-1] == (3, 3), "two ConfigMaps and a namespace"
