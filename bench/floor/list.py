"""The floor for backup: list every page of every resource and throw the bytes away.

A program of its own: `python -m bench.floor.list ACCESS PATHS CLIENT LANES`; prints one JSON object. LANES
resources are listed side by side, each over a connection of its own.
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.floor.access import Access
from bench.floor.lists import PAGE_ITEMS, continue_token

REQUEST_SECONDS = 60
Result = tuple[int, int]
"""Pages and bytes."""


def page_url(path: str, token: str) -> str:
    """The path and query of one page."""
    query = {"limit": str(PAGE_ITEMS)} | ({"continue": token} if token else {})
    return f"{path}?{urlencode(query)}"


async def _aiohttp_lane(session: Any, queue: Iterator[str]) -> Result:
    pages = size_bytes = 0
    for path in queue:
        token = ""
        while True:
            async with session.get(page_url(path, token)) as response:
                response.raise_for_status()
                body = await response.read()
            pages, size_bytes = pages + 1, size_bytes + len(body)
            if not (token := continue_token(body)):
                break
    return pages, size_bytes


async def _aiohttp(access: Access, paths: list[str], lanes: int) -> Result:
    from bench.floor.posting import open_session  # pycurl's process shall not pay for the import

    queue = iter(paths)
    async with open_session(access, lanes) as session, asyncio.TaskGroup() as group:
        tasks = [group.create_task(_aiohttp_lane(session, queue)) for _ in range(lanes)]
    results = [task.result() for task in tasks]
    return sum(pages for pages, _ in results), sum(size for _, size in results)


def list_with_aiohttp(access: Access, paths: list[str], lanes: int) -> Result:
    """List over aiohttp."""
    return asyncio.run(_aiohttp(access, paths, lanes))


def list_with_pycurl(access: Access, paths: list[str], lanes: int) -> Result:
    """List over libcurl; a lane is an easy handle, which keeps its connection."""
    curl = importlib.import_module("pycurl")
    queue, multi = iter(paths), curl.CurlMulti()
    pages = size_bytes = 0
    state: dict[Any, tuple[str, list[bytes]]] = {}

    def send(handle: Any, path: str, token: str) -> None:
        chunks: list[bytes] = []
        handle.setopt(curl.URL, access.server + page_url(path, token))
        handle.setopt(curl.WRITEFUNCTION, chunks.append)
        state[handle] = (path, chunks)
        multi.add_handle(handle)

    for _, path in zip(range(lanes), queue, strict=False):  # in this order: zip must not draw one too many
        send(curl_handle(curl, access), path, "")
    while state:
        while multi.perform()[0] == curl.E_CALL_MULTI_PERFORM:
            pass
        _, done, failed = multi.info_read()
        for handle, _code, message in failed:
            raise OSError(f"{state[handle][0]}: {message}")
        for handle in done:
            multi.remove_handle(handle)
            path, chunks = state.pop(handle)
            body = b"".join(chunks)
            if handle.getinfo(curl.RESPONSE_CODE) != 200:
                raise OSError(f"{path}: {body[:200]!r}")
            pages, size_bytes = pages + 1, size_bytes + len(body)
            if token := continue_token(body):
                send(handle, path, token)
            elif (following := next(queue, None)) is not None:
                send(handle, following, "")
        if not done:
            multi.select(wait_seconds(multi))
    return pages, size_bytes


def wait_seconds(multi: Any) -> float:
    """How long to wait for sockets: as libcurl wants, which may hold data that they no longer show."""
    milliseconds: int = multi.timeout()
    return min(milliseconds, 100) / 1000 if milliseconds >= 0 else 0.1


def curl_handle(curl: Any, access: Access) -> Any:
    """An easy handle with the client's certificate."""
    handle = curl.Curl()
    handle.setopt(curl.CAINFO, access.authority)
    handle.setopt(curl.SSLCERT, access.certificate)
    handle.setopt(curl.SSLKEY, access.key)
    handle.setopt(curl.HTTP_VERSION, curl.CURL_HTTP_VERSION_1_1)
    handle.setopt(curl.TIMEOUT, REQUEST_SECONDS)
    handle.setopt(curl.NOSIGNAL, 1)
    return handle


CLIENTS: dict[str, Callable[[Access, list[str], int], Result]] = {
    "aiohttp": list_with_aiohttp,
    "pycurl": list_with_pycurl,
}


def main(arguments: list[str]) -> int:
    """Run one sample."""
    access, paths, client, lanes = arguments
    listed = json.loads(Path(paths).read_text())
    start = time.perf_counter()
    pages, size_bytes = CLIENTS[client](Access.load(Path(access)), listed, int(lanes))
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "pages": pages, "bytes": size_bytes}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
