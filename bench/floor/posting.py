"""Many creates at once over aiohttp, and nothing else: the loader, and one of the floors for restore."""

import asyncio
from collections.abc import Iterable, Iterator

import aiohttp

from bench.floor.access import Access
from bench.floor.generate import CreateRequest

IN_FLIGHT = 32
REQUEST_SECONDS = 60.0
MAX_ATTEMPTS = 20
_TEXT_IN_ERROR = 300


class CreateFailed(Exception):
    """The server refused an object; the text is the server's."""


def open_session(access: Access, in_flight: int) -> aiohttp.ClientSession:
    """A session with as many connections as requests in flight."""
    return aiohttp.ClientSession(
        base_url=access.server,
        connector=aiohttp.TCPConnector(ssl=access.tls(), limit=in_flight),
        timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        headers={"Content-Type": "application/json"},
        auto_decompress=False,
        skip_auto_headers=["Accept-Encoding"],
    )


async def create_all(
    session: aiohttp.ClientSession, requests: Iterable[CreateRequest], *, in_flight: int = IN_FLIGHT
) -> int:
    """Send all requests, at most `in_flight` at a time; return how many there were.

    Raises:
        CreateFailed: at the first refusal other than 429.
    """
    queue = iter(requests)
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(_work(session, queue)) for _ in range(in_flight)]
    return sum(worker.result() for worker in workers)


async def _work(session: aiohttp.ClientSession, queue: Iterator[CreateRequest]) -> int:
    done = 0
    for request in queue:
        await _create(session, request)
        done += 1
    return done


async def _create(session: aiohttp.ClientSession, request: CreateRequest) -> None:
    for _attempt in range(MAX_ATTEMPTS):
        async with session.post(request.path, data=request.body) as response:
            answer = await response.read()
        if response.status == 201:
            return
        if response.status != 429:
            break
        await asyncio.sleep(float(response.headers.get("Retry-After", "1")))
    raise CreateFailed(
        f"{request.path}: {response.status} {answer[:_TEXT_IN_ERROR].decode(errors='replace')}"
    )
