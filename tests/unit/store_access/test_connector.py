"""No connection outlives its session, whatever the server does."""

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hack.cluster.pki import CertificateAuthority
from pinnace.store_access.requests import RequestPolicy, new_session, send

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@contextmanager
def rude_server(context: ssl.SSLContext) -> Iterator[str]:
    """A server that answers one request, does not keep the connection, and never says goodbye itself."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(ANSWER)
            over.wait(30)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            over.set()
            thread.join(30)


@pytest.mark.filterwarnings("always::ResourceWarning")
def test_an_unanswered_close_is_not_waited_for(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "pki", name="Test CA")
    pair = authority.issue_server("server", addresses=("127.0.0.1",), names=("localhost",))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)

    async def ask(url: str) -> bytes:
        async with new_session(authority.trust()) as session:
            policy = RequestPolicy(attempts=1, base_seconds=0.0, request_seconds=30.0)
            return (await send(session, "GET", url, policy=policy)).body

    with rude_server(context) as url, warnings.catch_warnings(record=True) as seen:
        assert asyncio.run(ask(url)) == b"ok"
        gc.collect()

    assert [str(each.message) for each in seen] == []
