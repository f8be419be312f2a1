"""The floor for restore: POST ready-made bodies and throw the answers away.

A program of its own: `python -m bench.floor.create ACCESS REQUESTS CLIENT IN_FLIGHT`; prints one JSON object.
The file of requests has a path, a tab and a body a line; an empty line waits for all before it.
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.floor.access import Access
from bench.floor.generate import CreateRequest
from bench.floor.list import curl_handle, wait_seconds

Wave = list[CreateRequest]


def write_waves(path: Path, waves: Iterable[Iterable[CreateRequest]]) -> int:
    """Write a file of requests; return their number."""
    count = 0
    with path.open("wb") as file:
        for number, wave in enumerate(waves):
            file.write(b"\n" if number else b"")
            for request in wave:
                file.write(request.path.encode() + b"\t" + request.body + b"\n")
                count += 1
    return count


def read_waves(path: Path) -> list[Wave]:
    """Read what `write_waves` wrote."""
    waves: list[Wave] = [[]]
    with path.open("rb") as file:
        for line in file:
            if line == b"\n":
                waves.append([])
                continue
            target, _, body = line.rstrip(b"\n").partition(b"\t")
            waves[-1].append(CreateRequest(target.decode(), body))
    return waves


async def _aiohttp(access: Access, waves: list[Wave], in_flight: int) -> None:
    from bench.floor.posting import create_all, open_session  # pycurl's process shall not pay for the import

    async with open_session(access, in_flight) as session:
        for wave in waves:
            await create_all(session, wave, in_flight=in_flight)


def create_with_aiohttp(access: Access, waves: list[Wave], in_flight: int) -> None:
    """Create over aiohttp."""
    asyncio.run(_aiohttp(access, waves, in_flight))


def create_with_pycurl(access: Access, waves: list[Wave], in_flight: int) -> None:
    """Create over libcurl's multi interface, one connection a handle."""
    curl = importlib.import_module("pycurl")
    multi = curl.CurlMulti()
    handles = [curl_handle(curl, access) for _ in range(in_flight)]
    for handle in handles:
        handle.setopt(curl.HTTPHEADER, ["Content-Type: application/json", "Expect:"])
    for wave in waves:
        _curl_wave(curl, multi, handles, access, wave)


def _curl_wave(curl: Any, multi: Any, handles: list[Any], access: Access, wave: Wave) -> None:
    queue = iter(wave)
    sent: dict[Any, tuple[CreateRequest, list[bytes]]] = {}

    def send(handle: Any, request: CreateRequest | None) -> None:
        if request is None:
            return
        answer: list[bytes] = []
        sent[handle] = (request, answer)
        handle.setopt(curl.URL, access.server + request.path)
        handle.setopt(curl.WRITEFUNCTION, answer.append)
        handle.setopt(curl.POST, 1)
        handle.setopt(curl.POSTFIELDSIZE, len(request.body))
        handle.setopt(curl.COPYPOSTFIELDS, request.body)
        multi.add_handle(handle)

    for handle in handles:
        send(handle, next(queue, None))
    while sent:
        while multi.perform()[0] == curl.E_CALL_MULTI_PERFORM:
            pass
        _, done, failed = multi.info_read()
        if failed:
            raise OSError(str(failed[0][2]))
        for handle in done:
            multi.remove_handle(handle)
            request, answer = sent.pop(handle)
            code = handle.getinfo(curl.RESPONSE_CODE)
            if code not in (201, 429):
                raise OSError(f"{request.path}: {code} {b''.join(answer)[:300].decode(errors='replace')}")
            send(handle, request if code == 429 else next(queue, None))
        if not done:
            multi.select(wait_seconds(multi))


CLIENTS: dict[str, Callable[[Access, list[Wave], int], None]] = {
    "aiohttp": create_with_aiohttp,
    "pycurl": create_with_pycurl,
}


def main(arguments: list[str]) -> int:
    """Run one sample; reading the file is not part of it."""
    access, requests, client, in_flight = arguments
    waves = read_waves(Path(requests))
    start = time.perf_counter()
    CLIENTS[client](Access.load(Path(access)), waves, int(in_flight))
    print(json.dumps({"seconds": time.perf_counter() - start, "objects": sum(map(len, waves))}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
