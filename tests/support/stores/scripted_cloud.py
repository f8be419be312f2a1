"""A scripted cloud on loopback: answers by method and path, and records the requests."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


@dataclass
class Cloud:
    """Answers in order; the last answer of a path is repeated. `{url}` in headers is the server's own URL."""

    url: str = ""
    answers: dict[tuple[str, str], list[tuple[int, Any, dict[str, str]]]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def on(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Add an answer."""
        self.answers.setdefault((method, path), []).append((status, body, dict(headers or {})))

    def requests(self, method: str, path: str) -> list[Asked]:
        """The requests of a path."""
        return [each for each in self.asked if (each.method, each.path) == (method, path)]

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        body = await request.content.read()
        asked = Asked(request.method, request.path, dict(request.query), dict(request.headers), body)
        self.asked.append(asked)
        missing = {"error": {"code": 404, "message": f"{request.path} was not found"}}
        script = self.answers.get((request.method, request.path), [(404, missing, {})])
        status, answer, headers = script.pop(0) if len(script) > 1 else script[0]
        return web.Response(
            status=status,
            body=json.dumps(answer).encode() if answer is not None else b"",
            headers={name: value.replace("{url}", self.url) for name, value in headers.items()},
        )


@asynccontextmanager
async def scripted_cloud() -> AsyncIterator[Cloud]:
    """A running one."""
    cloud = Cloud()
    runner = web.ServerRunner(web.Server(cloud.handle), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    cloud.url = f"http://{host}:{port}"
    yield cloud
    await runner.cleanup()
