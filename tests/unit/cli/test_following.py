"""The end of `get --watch` whose output nobody reads."""

import asyncio
import os

import pytest

from pinnace.cli.common.following import end_without_reader


@pytest.mark.found("op-17")
async def test_a_watch_ends_when_the_reader_of_its_pipe_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        waiting = asyncio.create_task(end_without_reader())
        assert not (await asyncio.wait([waiting], timeout=0))[0]
        os.close(read)

        with pytest.raises(BrokenPipeError):
            await waiting
