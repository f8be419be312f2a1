"""Profiles of the running process, over HTTP."""

import asyncio
import json
import socket
import sys
import tracemalloc
from collections.abc import AsyncIterator

import aiohttp
import pytest

from pinnace.server.monitoring.profiler import ProfilerServer
from pinnace.server.monitoring.profiling import LIBRARY_MISSING
from tests.support.waiting import eventually


class Page:
    """The pages of one profiler."""

    def __init__(self, server: ProfilerServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def __call__(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.server.bound_port}/debug/pprof/{path}"
        async with self.session.get(url) as response:
            return response.status, await response.text()


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    server = ProfilerServer(":0")
    running = asyncio.create_task(server.run())

    async def listens() -> bool:
        return server.bound_port is not None

    await eventually(listens)
    async with aiohttp.ClientSession() as session:
        yield Page(server, session)
    running.cancel()
    await asyncio.wait((running,))


async def busy_with_something() -> None:
    while True:
        sum(range(10_000))
        await asyncio.sleep(0)


async def measuring() -> bool:
    return tracemalloc.is_tracing()


async def test_the_index_names_the_profiles(page: Page) -> None:
    status, text = await page("")
    assert status == 200
    assert "/debug/pprof/heap" in text


async def test_cpu_samples_name_the_running_functions(page: Page) -> None:
    pytest.importorskip("pyinstrument")
    busy = asyncio.create_task(busy_with_something())
    try:
        status, text = await page("profile?seconds=1")
        assert (status, "busy_with_something" in text) == (200, True)
        status, text = await page("profile?seconds=1&format=speedscope")
        names = [frame["name"] for frame in json.loads(text)["shared"]["frames"]]
        assert "busy_with_something" in names
        status, text = await page("profile?seconds=0&format=html")
        assert (status, "<html" in text) == (200, True)
    finally:
        busy.cancel()
        await asyncio.wait((busy,))
    assert sys.getprofile() is None


async def test_a_heap_profile_shows_the_memory_allocated_during_it(page: Page) -> None:
    look = asyncio.create_task(page("heap?seconds=3"))
    await eventually(measuring)
    held = [bytearray(1 << 20) for _ in range(3)]
    status, text = await look

    assert status == 200
    assert "Peak of the process: " in text
    [line] = [line for line in text.splitlines() if "test_profiler.py" in line and "bytes" in line][:1]
    assert int(line.split()[0]) >= sum(len(block) for block in held)
    assert not tracemalloc.is_tracing()


async def test_a_second_profile_at_the_same_time_is_refused(page: Page) -> None:
    look = asyncio.create_task(page("heap?seconds=3"))
    await eventually(measuring)
    busy = "another profile is being taken; try again when it has ended\n"
    assert await page("heap?seconds=0") == (409, busy)
    assert (await look)[0] == 200
    assert (await page("heap?seconds=0"))[0] == 200


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("profile?seconds=x", "seconds must be a number from 0 to 300\n"),
        ("profile?seconds=nan", "seconds must be a number from 0 to 300\n"),
        ("heap?seconds=301", "seconds must be a number from 0 to 300\n"),
        ("profile?format=svg", "format must be one of text, html, speedscope\n"),
    ],
)
async def test_invalid_requests_are_refused(page: Page, path: str, text: str) -> None:
    assert await page(path) == (400, text)


async def test_without_the_library_the_answer_says_how_to_get_it(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyinstrument", None)  # what importlib takes for "not installed"

    assert await page("profile?seconds=0") == (501, f"{LIBRARY_MISSING}\n")
    assert "pinnace[profiler]" in LIBRARY_MISSING
    assert (await page("heap?seconds=0"))[0] == 200


async def test_a_port_that_is_in_use_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        await ProfilerServer(f":{taken.getsockname()[1]}").run()
    assert "No profiles are served" in caplog.text
