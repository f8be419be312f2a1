"""A web server on loopback that keeps what sinks of messages send to it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Hooks:
    """A web server that keeps the paths and bodies of what it gets, and refuses what is below /bad."""

    def __init__(self) -> None:
        got: list[tuple[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                got.append((self.path, body))
                self.send_response(500 if self.path.startswith("/bad") else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.got = got
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def paths(self) -> list[str]:
        """The paths of all requests, in their order."""
        return [path for path, _ in self.got]


@contextmanager
def listening() -> Iterator[Hooks]:
    """A running server."""
    made = Hooks()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


def document(hooks: Hooks, path: str = "/ok") -> str:
    """The document with a webhook and a ping of this server."""
    return (
        "cluster: prod\nsinks:\n"
        f"- {{name: hook, webhook: {{url: '{hooks.url}{path}'}}}}\n"
        f"- {{name: hc, ping: {{url: '{hooks.url}/ping'}}}}\n"
    )
