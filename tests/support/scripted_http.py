"""An HTTP server on loopback that answers as a test scripts it."""

import hashlib
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Service:
    """Answers as scripted, by method and path; the last answer of a path is repeated.

    With `digests`, answers to PUT with status 200 get the ETag of what was sent.
    """

    url: str = ""
    answers: dict[tuple[str, str], list[web.Response | tuple[int, bytes]]] = field(default_factory=dict)
    digests: bool = True
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def on(self, method: str, path: str, *answers: tuple[int, bytes]) -> None:
        self.answers[method, path] = list(answers)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        body = await request.content.read()
        self.asked.append((request.method, request.path_qs, dict(request.headers), body))
        script = self.answers.get((request.method, request.path), [(404, b"")])
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, web.Response):
            return answer
        headers = {}
        if self.digests and request.method == "PUT" and answer[0] == 200:
            headers["ETag"] = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        return web.Response(status=answer[0], body=answer[1], headers=headers)
