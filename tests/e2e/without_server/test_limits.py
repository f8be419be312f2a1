"""Commands in processes with low limits: one line names the limit, without a traceback."""

from pathlib import Path

import pytest

from tests.e2e.without_server.command import Pinnace

DESCRIPTORS = [f"--nofile={count}" for count in (6, 9, 12, 15, 18, 22, 28)]
MEMORY = [f"--as={mebibytes << 20}" for mebibytes in (45, 70, 110, 150, 190, 250, 400)]
NOISE = (
    "Traceback",
    "this should not happen",
    "ExceptionGroup",
    "[Errno",
    "Exception ignored",
    "never awaited",
)


@pytest.mark.parametrize("limits", [DESCRIPTORS, MEMORY], ids=["descriptors", "memory"])
async def test_a_limit_that_is_too_low_is_said_in_one_line(
    pinnace: Pinnace, location: Path, world: str, limits: list[str]
) -> None:
    codes = set()
    for number, limit in enumerate(limits):
        outcome = await pinnace.limited(
            limit, "backup", "create", f"b{number}", "--include-namespaces", world
        )
        printed = outcome.out + outcome.err
        assert not [noise for noise in NOISE if noise in printed], (limit, printed)
        assert outcome.code in (0, 1, 3, 4), (limit, outcome)
        if outcome.code == 1:
            assert outcome.told.startswith("An error occurred: "), (limit, outcome)
            assert outcome.told.count("\n") == 1, (limit, outcome)
        codes.add(outcome.code)
    assert 1 in codes
