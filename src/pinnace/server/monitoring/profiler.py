"""The profiler's pages, under the paths that operators know from Go programs. (docs/spec: SRV 7)

They answer plain text rather than Go's format, with names of functions and files but no values. They are
served on this machine only, unless the address has another host.
"""

import asyncio
from typing import Final

from aiohttp import web

from pinnace.runtime.logfields import get_logger
from pinnace.server.monitoring.pages import listening, parse_address
from pinnace.server.monitoring.profiling import FORMATS, Busy, CannotProfile, Profiling

log = get_logger(__name__)

LOOPBACK: Final = "127.0.0.1"
CPU_SECONDS: Final = 30.0
MEMORY_SECONDS: Final = 10.0
MOST_SECONDS: Final = 300.0

INDEX: Final = f"""\
/debug/pprof/profile?seconds={CPU_SECONDS:g}&format=text   where the event loop spends its time
    format: {", ".join(FORMATS)} (for https://www.speedscope.app)
/debug/pprof/heap?seconds={MEMORY_SECONDS:g}                 what the memory holds, what is added meanwhile
At most {MOST_SECONDS:g} seconds. Nothing is measured until a profile is asked for.
"""


class ProfilerServer:
    """Serves the pages until cancelled.

    Args:
        address: `host:port`; without a host, or with `localhost`, this machine only.
    """

    def __init__(self, address: str) -> None:
        host, self._port = parse_address(address)
        self._host = LOOPBACK if host in ("", "localhost") else host
        self._profiling = Profiling()
        self.bound_port: int | None = None

    async def run(self) -> None:
        """Serve until cancelled. An address that cannot be used is only logged. (docs/spec: SRV 4)"""
        app = web.Application()
        app.router.add_get("/debug/pprof/", self._index)
        app.router.add_get("/debug/pprof/profile", self._cpu)
        app.router.add_get("/debug/pprof/heap", self._memory)
        try:
            async with listening(app, self._host, self._port) as port:
                self.bound_port = port
                log.info("Serving profiles", address=f"{self._host}:{port}")
                await asyncio.Event().wait()
        except OSError as error:
            log.warning("No profiles are served; choose another address with --profiler-address", error=error)

    async def _index(self, _request: web.Request) -> web.Response:
        return web.Response(text=INDEX)

    async def _cpu(self, request: web.Request) -> web.Response:
        seconds, form = _seconds(request, CPU_SECONDS), request.query.get("format", "text")
        if form not in FORMATS:
            raise web.HTTPBadRequest(text=f"format must be one of {', '.join(FORMATS)}\n")
        try:
            text = await self._profiling.cpu(seconds, form)
        except CannotProfile as error:
            return _refusal(error)
        return web.Response(text=text, content_type=FORMATS[form])

    async def _memory(self, request: web.Request) -> web.Response:
        try:
            return web.Response(text=await self._profiling.memory(_seconds(request, MEMORY_SECONDS)))
        except CannotProfile as error:
            return _refusal(error)


def _seconds(request: web.Request, default: float) -> float:
    try:
        seconds = float(request.query.get("seconds", default))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_SECONDS:
        raise web.HTTPBadRequest(text=f"seconds must be a number from 0 to {MOST_SECONDS:g}\n")
    return seconds


def _refusal(error: CannotProfile) -> web.Response:
    return web.Response(text=f"{error}\n", status=409 if isinstance(error, Busy) else 501)
