"""The pages of the server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import NoReturn

import aiohttp
import pytest

from pinnace.runtime.manager import Health
from pinnace.server.monitoring import pages
from pinnace.server.monitoring.metrics import ServerMetrics
from pinnace.server.monitoring.pages import StatusServer, parse_address
from tests.support.waiting import eventually

RUNNING = Health(live=True, ready=True, detail="Running")


@asynccontextmanager
async def serving(answers: Iterator[Health]) -> AsyncIterator[str]:
    """The base URL of a server whose health is what comes next."""
    server = StatusServer("127.0.0.1:0", ServerMetrics().exposition, lambda: next(answers))
    task = asyncio.create_task(server.run())

    async def listening() -> bool:
        return server.bound_port is not None

    await eventually(listening)
    try:
        yield f"http://127.0.0.1:{server.bound_port}"
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def get(url: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, response.headers["Content-Type"], await response.text()


async def test_metrics_are_prometheus_text_with_counters_at_zero() -> None:
    async with serving(iter([])) as url:
        status, content_type, text = await get(f"{url}/metrics")

    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'velero_backup_attempt_total{schedule=""} 0.0' in text.splitlines()


@pytest.mark.parametrize(
    ("health", "live", "ready"),
    [
        (RUNNING, 200, 200),
        (Health(live=True, ready=True, detail="Standby"), 200, 200),
        (Health(live=True, ready=False, detail="Syncing"), 200, 503),
        (Health(live=False, ready=False, detail="the lease ran out"), 503, 503),
    ],
    ids=lambda value: value.detail if isinstance(value, Health) else None,
)
async def test_probes_answer_by_the_health_of_the_process(health: Health, live: int, ready: int) -> None:
    async with serving(iter([health, health])) as url:
        answers = [await get(f"{url}/{page}") for page in ("healthz", "readyz")]

    assert [(status, text) for status, _, text in answers] == [
        (live, f"{health.detail}\n"),
        (ready, f"{health.detail}\n"),
    ]


async def test_other_paths_are_not_found() -> None:
    async with serving(iter([])) as url:
        assert (await get(f"{url}/"))[0] == 404


async def test_an_address_in_use_is_an_error_that_names_its_flag() -> None:
    async with serving(iter([])) as url:
        address = url.removeprefix("http://")
        other = StatusServer(address, ServerMetrics().exposition, lambda: RUNNING, flag="--page")
        text = f"cannot listen on {address}: Address already in use; choose another address with --page"
        with pytest.raises(OSError, match=text):
            await other.run()


async def test_an_address_error_without_a_number_keeps_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio of Python 3.12 and later raises such an error if no interface has the address."""

    def unusable(*_arguments: object) -> NoReturn:
        raise OSError("could not bind on any address out of [('192.0.2.1', 80)]")

    monkeypatch.setattr(pages, "listening", unusable)
    server = StatusServer("192.0.2.1:80", ServerMetrics().exposition, lambda: RUNNING)
    with pytest.raises(
        OSError, match=r"cannot listen on 192\.0\.2\.1:80: could not bind on any address out of"
    ):
        await server.run()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8085", ("", 8085)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_an_address_is_split_into_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "8085", "host:", "host:http", ":65536", ":-1"])
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address of the form host:port"):
        parse_address(text)
