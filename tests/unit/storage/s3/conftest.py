"""What these tests share."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.support.scripted_http import Service


@pytest.fixture
def service_kind() -> type[Service]:
    return Service


@pytest.fixture
async def service(service_kind: type[Service]) -> AsyncIterator[Service]:
    service = service_kind()
    runner = web.ServerRunner(web.Server(service.handle), shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    service.url = f"http://{host}:{port}"
    yield service
    await runner.cleanup()
