"""The pages of a server: metrics for Prometheus, probes for the kubelet. (docs/spec: SRV 7)"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from pinnace.api.values.digits import is_digits
from pinnace.api.values.error_texts import error_text
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.manager import Health
from pinnace.server.monitoring.metrics import CONTENT_TYPE

log = get_logger(__name__)

SHUTDOWN_SECONDS = 2.0


class StatusServer:
    """Serves /metrics, /healthz and /readyz until cancelled.

    Args:
        address: `host:port`; an empty host means all interfaces, port 0 any free one.
        exposition: the metrics as Prometheus text.
        health: of the process.
        flag: the flag that gave the address, for the message when the address cannot be used.
    """

    def __init__(
        self,
        address: str,
        exposition: Callable[[], bytes],
        health: Callable[[], Health],
        *,
        flag: str = "--metrics-address",
    ) -> None:
        self._host, self._port = parse_address(address)
        self._flag = flag
        self._exposition = exposition
        self._health = health
        self.bound_port: int | None = None

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError, which names the flag, when the address cannot be used."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._live)
        app.router.add_get("/readyz", self._ready)
        try:
            async with listening(app, self._host, self._port) as port:
                self.bound_port = port
                log.info("Serving metrics and probes", address=f"{self._host or '*'}:{port}")
                await asyncio.Event().wait()
        except OSError as error:
            # The text of asyncio is about the call; what matters is the address and its flag.
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error_text(error)
            address = f"{self._host or '*'}:{self._port}"
            text = f"cannot listen on {address}: {reason}; choose another address with {self._flag}"
            raise OSError(error.errno, text) from error

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def _live(self, _request: web.Request) -> web.Response:
        health = self._health()
        return web.Response(text=f"{health.detail}\n", status=200 if health.live else 503)

    async def _ready(self, _request: web.Request) -> web.Response:
        health = self._health()
        return web.Response(text=f"{health.detail}\n", status=200 if health.ready else 503)


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve pages until the context ends; yields the port. An empty host: all interfaces. Raises OSError."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def parse_address(text: str) -> tuple[str, int]:
    """Split `host:port` or `:port` or `[::1]:port`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not is_digits(port) or int(port) > 65535:
        raise ValueError(f'"{text}" is not an address of the form host:port')
    return host.strip("[]"), int(port)
