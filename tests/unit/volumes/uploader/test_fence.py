"""No program of a repository is started by a server that may not lead any more."""

from pathlib import Path

import pytest

from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import AccessError
from tests.support.fences import TestFence
from tests.unit.volumes.programs import ScriptedProgram


@pytest.mark.found("L3")
async def test_a_repository_is_not_opened_while_the_fence_is_closed(tmp_path: Path) -> None:
    accesses = ScriptedProgram(tmp_path).accesses
    fence = TestFence()
    accesses._client.fence = fence
    place = Repository(identifier="r", location="default", namespace="shop")
    async with accesses.open(place) as opened:
        assert opened.directory.exists()

    fence.closed = "another leads"
    with pytest.raises(AccessError, match="the repository of shop was not opened: another leads"):
        async with accesses.open(place):
            pytest.fail("it was opened")
