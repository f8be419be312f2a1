"""The texts about connections that failed."""

import asyncio
import errno

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from pinnace.store_access.errors import StoreUnavailable
from pinnace.store_access.requests import RequestPolicy, error_for, new_session, reason_of, send


async def test_an_answer_that_is_not_http_does_not_show_the_authorization_in_the_url() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, new_session(tls=True) as session:
        with pytest.raises(StoreUnavailable) as caught:
            await send(
                session, "GET", f"http://127.0.0.1:{port}/a?sig=secret", policy=RequestPolicy(attempts=1)
            )

    assert str(caught.value) == f"cannot reach http://127.0.0.1:{port}: the answer is not HTTP"


async def test_https_to_a_port_without_tls_says_so() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, new_session(tls=True) as session:
        with pytest.raises(StoreUnavailable, match=r"speaks no TLS: is it http:// and not https://\?$"):
            await send(session, "GET", f"https://127.0.0.1:{port}/a", policy=RequestPolicy(attempts=1))


def test_the_refusal_of_a_proxy_is_called_one_and_shows_no_url() -> None:
    url, headers = URL("http://store/a?sig=secret"), CIMultiDictProxy[str](CIMultiDict())
    request = aiohttp.RequestInfo(url, "CONNECT", headers, url)

    reason = reason_of(aiohttp.ClientHttpProxyError(request, (), status=407, message="Authentication"))

    assert reason == "the proxy on the way answers with HTTP status 407"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"),
        OSError(
            "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
            "[Errno 111] Connect call failed ('127.0.0.1', 1)"
        ),
    ],
    ids=["one address", "several addresses"],
)
def test_a_refused_connection_is_called_refused(error: OSError) -> None:
    assert reason_of(error) == "Connection refused"


@pytest.mark.found("K-F12")
@pytest.mark.parametrize(
    ("code", "has_advice"),
    [("RequestTimeTooSkewed", True), ("RequestExpired", True), ("AccessDenied", False)],
)
def test_a_clock_that_is_off_is_named(code: str, has_advice: bool) -> None:
    body = f"<Error><Code>{code}</Code><Message>The difference is too large.</Message></Error>"

    text = str(error_for("cannot list bucket 'b'", 403, body))

    assert text.startswith(f"cannot list bucket 'b': The difference is too large. ({code})")
    assert ("the clock of this machine" in text) == has_advice
