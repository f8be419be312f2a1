"""HTTP requests to object stores and clouds: TLS, limited retries, errors as clear texts.

Answers are read completely, within a limit; `storage.downloads` streams objects. Redirects are never
followed: they would send requests, and signatures, to other hosts.
"""

import asyncio
import contextlib
import errno
import os
import random
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from types import TracebackType
from typing import Final
from xml.etree import ElementTree

import aiohttp
from yarl import URL

from pinnace.aio.retrying import RetryPolicy
from pinnace.aio.temporary import TOO_MANY_OPEN
from pinnace.store_access import tracing
from pinnace.store_access.addresses import Addresses
from pinnace.store_access.answers import page_complaint, status_text
from pinnace.store_access.connector import Connector
from pinnace.store_access.errors import StorageError, StoreConfigError, StoreUnavailable
from pinnace.store_access.user_agent import user_agent

_MAX_BODY_BYTES = 16 << 20
_MAX_TEXT_CHARACTERS = 300
_UNSENT_BYTES = 128 << 10
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
_ERROR_NUMBERS: Final = re.compile(r"\[Errno ([0-9]+)\]")
_REDIRECTIONS = frozenset({302, 303, 307})


class RequestPolicy(RetryPolicy, frozen=True, kw_only=True):
    """The retries of a request and the time limits of its attempts.

    Attributes:
        request_seconds: the timeout of one request that transfers little data.
        upload_seconds: the timeout of one request that sends a part of an object.
        connect_seconds: the timeout for connecting, TLS included.
        silence_seconds: how long no data may flow, in either direction, before a request fails: the timeout
            of the first byte of an answer, and of each block after it.
        patience_seconds: no attempt starts later than this after the first one. Only the second may start
            later by one silence: a single connection that hangs is tried again on another, and a service that
            accepts connections and never answers is an error after two silences.
    """

    patience_seconds: float = 15.0
    request_seconds: float = 60.0
    upload_seconds: float = 300.0
    connect_seconds: float = 5.0
    silence_seconds: float = 20.0

    async def wait(self, attempts: int) -> None:
        """Wait after this number of failed attempts."""
        await asyncio.sleep(self.backoff_seconds(attempts, jitter=random.random))

    def began(self) -> "Tries":
        """Return the counter for the attempts of a request that starts now."""
        return Tries(self, asyncio.get_running_loop().time())


@dataclass(slots=True)
class Tries:
    """The attempts of one request so far."""

    policy: RequestPolicy
    since: float
    count: int = 0

    @property
    def used_up(self) -> bool:
        """Whether the attempt that just ended was the last one."""
        policy = self.policy
        limit_seconds = policy.patience_seconds + (policy.silence_seconds if self.count == 1 else 0.0)
        late = asyncio.get_running_loop().time() - self.since >= limit_seconds
        return late or self.count >= policy.attempts

    async def wait(self) -> None:
        """Wait before the next attempt."""
        await self.policy.wait(self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP answer whose body has been read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@lru_cache(maxsize=64)
def tls_context(ca_cert: str = "", *, insecure: bool = False) -> ssl.SSLContext | bool:
    """Return what aiohttp is to trust: `ca_cert` if given, else the system's roots, or anything. (STO 14.1)

    True is aiohttp's own context with the system's roots, which it loads on import: loading them once more
    takes 20 ms. Equal arguments return the same context: each one holds half a megabyte of certificates
    outside of Python's memory, and stores are opened repeatedly.

    Raises:
        StoreConfigError: `ca_cert` holds no certificate.
    """
    context: ssl.SSLContext | bool = True
    if ca_cert:
        try:
            context = ssl.create_default_context(cadata=ca_cert)
        except ssl.SSLError as error:
            raise StoreConfigError("caCert is not a PEM certificate bundle") from error
    return False if insecure else context


def new_session(
    tls: ssl.SSLContext | bool,
    *,
    use_proxy: bool = True,
    addresses: Addresses | None = None,
    traces_paths: bool = True,
) -> aiohttp.ClientSession:
    """Return a session, which the caller closes. Metadata services and tenants' stores use no proxy.

    Args:
        tls: of `tls_context`.
        addresses: the addresses that connections may have; None for any.
        traces_paths: whether a trace of requests has their paths.
    """
    return aiohttp.ClientSession(
        # No limit of connections: waiting for one would count as silence of the service.
        connector=Connector(ssl=tls, limit=0, socket_factory=_new_socket, addresses=addresses),
        headers={"User-Agent": user_agent()},
        auto_decompress=False,
        trust_env=use_proxy and addresses is None,
        trace_configs=tracing.of_store(shows_paths=traces_paths),
    )


def _new_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket with a small send buffer.

    The kernel would otherwise accept megabytes at once, and sending them on a slow line would look like
    silence.
    """
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        with contextlib.suppress(OSError):  # an improvement that not every kernel supports
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    return made


Complaint = Callable[[Reply], str]
"""Returns why an answer of success is not the service's own; empty if it is.

A proxy, a login page or a cache in between may answer 200 to anything. Such an answer does not count: the
request is repeated, and its outcome is unknown if all answers are like that.
"""


def web_page(reply: Reply) -> str:
    """The complaint about a web page, which no service here sends."""
    return page_complaint(reply.headers.get("Content-Type", ""))


def may_differ_later(reply: Reply) -> bool:
    """Whether the same request may be answered otherwise later, judged by the status.

    A redirection counts, as a login page in the way sends one, unless it is a service's, which says why.
    """
    if reply.status in _REDIRECTIONS:
        return not reply.body.lstrip().startswith((b"<?xml", b"<Error", b"{"))
    return reply.status in RETRIED_STATUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An idempotent request.

    Attributes:
        url: complete and quoted; sent unchanged.
        headers: called before every attempt, as signatures expire.
        data: the body, or the fields of a form.
        complaint: checks answers of success.
        what: the operation that failed, for the error.
        silence_seconds: replaces the policy's, for operations that take a service long.
    """

    method: str
    url: str
    headers: Callable[[], Awaitable[Mapping[str, str]]] | None = None
    data: Mapping[str, str] | bytes | None = None
    complaint: Complaint = web_page
    what: str = ""
    silence_seconds: float | None = None


async def send(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    policy: RequestPolicy,
    headers: Callable[[], Awaitable[Mapping[str, str]]] | None = None,
    data: Mapping[str, str] | bytes | None = None,
) -> Reply:
    """Send a request whose answer is not checked beyond its status and content. See send_request()."""
    request = Request(method=method, url=url, headers=headers, data=data)
    return await send_request(session, request, policy=policy)


async def send_request(session: aiohttp.ClientSession, request: Request, *, policy: RequestPolicy) -> Reply:
    """Send a request, repeat it after transient failures, and return the last answer of any status.

    Raises:
        StoreUnavailable: no answer, or none of the service's own, in all attempts.
    """
    tries = policy.began()
    while True:
        tries.count += 1
        try:
            reply = await _send_once(session, request, policy)
        except (aiohttp.ClientError, TimeoutError) as error:
            if tries.used_up or isinstance(error, aiohttp.ClientConnectorCertificateError):
                raise StoreUnavailable(
                    f"cannot reach {origin_of(request.url)}: {reason_of(error)}"
                ) from error
        else:
            complaint = request.complaint(reply) if reply.status < 300 else ""
            if not complaint and (tries.used_up or not may_differ_later(reply)):
                return reply
            if complaint and tries.used_up:
                raise not_an_answer(request.url, reply, complaint, what=request.what)
        await tries.wait()


def not_an_answer(url: str, reply: Reply, complaint: str, *, what: str = "") -> StoreUnavailable:
    """The error for an answer of success that is not the service's own."""
    return StoreUnavailable(
        f"{what}{': ' if what else ''}{origin_of(url)} answered with status {reply.status}, "
        f"but this is not the service's answer: {complaint}"
    )


async def _send_once(session: aiohttp.ClientSession, request: Request, policy: RequestPolicy) -> Reply:
    data, url = request.data, request.url
    silence_seconds = request.silence_seconds or policy.silence_seconds
    headers = await request.headers() if request.headers else {}
    total_seconds = policy.upload_seconds if isinstance(data, bytes) else policy.request_seconds
    async with (
        _Silence(silence_seconds) as silence,
        session.request(
            request.method,
            URL(url, encoded=True),
            headers=headers,
            data=_WatchedBody(data, silence) if isinstance(data, bytes) else data,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=max(total_seconds, request.silence_seconds or 0.0), sock_connect=policy.connect_seconds
            ),
        ) as answer,
    ):
        body = bytearray()
        async for block in answer.content.iter_chunked(1 << 16):
            silence.restart()
            body += block
            if len(body) > _MAX_BODY_BYTES:
                raise StorageError(f"{origin_of(url)} answered with more than {_MAX_BODY_BYTES} bytes")
        return Reply(status=answer.status, headers=answer.headers, body=bytes(body))


class _Silence:
    """A timeout that restarts whenever data flows. Its block raises TimeoutError."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)
        self._open = False

    async def __aenter__(self) -> "_Silence":
        await self._timeout.__aenter__()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        await self._timeout.__aexit__(kind, error, trace)

    def restart(self) -> None:
        """Begin to count again, as data has moved."""
        # Another task writes the body, and may end a step after the request.
        if self._open and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)


class _WatchedBody(BytesIO):
    """A body that is sent in pieces (unlike plain bytes); each is read after the previous one was sent."""

    def __init__(self, data: bytes, silence: _Silence) -> None:
        super().__init__(data)
        self._silence = silence

    def read(self, size: int | None = -1, /) -> bytes:
        """See BytesIO.read."""
        self._silence.restart()
        return super().read(size)


def origin_of(url: str) -> str:
    """Scheme and host of a URL, the only parts that error texts show."""
    parts = URL(url, encoded=True)
    return f"{parts.scheme}://{parts.authority}"


def reason_of(error: Exception) -> str:
    """Why a connection failed, in one line."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return TOO_MANY_OPEN
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy on the way answers with HTTP status {error.status}"
    if isinstance(error, aiohttp.ClientResponseError):
        return "the answer is not HTTP"  # the error quotes the URL, which may hold an authorization
    if isinstance(error, aiohttp.ClientConnectorSSLError) and "WRONG_VERSION_NUMBER" in str(error):
        return "the server at this port speaks no TLS: is it http:// and not https://?"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if "Connect call failed" in text:  # asyncio's words, once for each address of the host
        numbers = [int(number) for number in _ERROR_NUMBERS.findall(text)] or [getattr(error, "errno", 0)]
        return ", ".join(dict.fromkeys(os.strerror(number) for number in numbers if number)) or text
    return str(text).splitlines()[0][:_MAX_TEXT_CHARACTERS]


def parse_xml(body: bytes, what: str) -> ElementTree.Element:
    """Parse an answer. Expat refuses entity bombs by itself, and the size of the body is limited.

    Raises:
        StorageError: it is not XML.
    """
    try:
        return ElementTree.fromstring(body)  # noqa: S314
    except ElementTree.ParseError as error:
        raise StorageError(f"{what}: the answer is not XML, as the service sends it") from error


def other_root(reply: Reply, name: str) -> str:
    """The complaint about a body that is not an XML document of that name."""
    try:
        found = local_name(ElementTree.fromstring(reply.body))  # noqa: S314
    except (ElementTree.ParseError, ValueError):
        return web_page(reply) or f"the body is not XML but should be <{name}>"
    if found == name:
        return ""
    return error_within(reply) or f"the body is <{found}> instead of <{name}>"


def error_within(reply: Reply) -> str:
    """The message of an error document that has a status of success; empty if the body is not one."""
    try:
        root = ElementTree.fromstring(reply.body) if reply.body.strip() else None  # noqa: S314
    except (ElementTree.ParseError, ValueError):
        root = None
    if root is None or local_name(root) != "Error":
        return ""
    code, message = code_and_message(reply.body)
    return f"{message or 'an error without a message'}{f' ({code})' if code else ''}"


def local_name(element: ElementTree.Element) -> str:
    """The tag without its namespace, which S3-compatible stores spell in several ways."""
    return element.tag.rpartition("}")[2]


def child_text(element: ElementTree.Element, name: str) -> str:
    """The text of the first child of that name, empty if there is none."""
    return next((child.text or "" for child in element if local_name(child) == name), "")


_OF_CLOCKS: Final = frozenset({"RequestTimeTooSkewed", "RequestExpired"})


def error_for(what: str, status: int, body: bytes | str) -> StorageError:
    """The error for an answer with an error status.

    Only `Code` and `Message` of the body are shown: other elements hold key ids and signed texts.
    """
    code, message = code_and_message(body)
    text = f"{what}: {message or status_text(status)}{f' ({code})' if code else ''}"
    if code in _OF_CLOCKS:
        text += ": the clock of this machine and the service's differ too much; set it, and try again"
    if code == "NoSuchBucket":
        return StoreConfigError(text)
    if status in RETRIED_STATUSES:
        return StoreUnavailable(text)
    return StorageError(text)


def code_and_message(body: bytes | str) -> tuple[str, str]:
    """Code and message of an answer with an error status; empty texts if it has none."""
    try:
        root = ElementTree.fromstring(body) if body else None  # noqa: S314
    except (ElementTree.ParseError, ValueError):
        root = None
    if root is None:
        return "", ""
    # At any level: S3 has them at the top, STS one level below.
    texts = {local_name(element): " ".join((element.text or "").split()) for element in root.iter()}
    return texts.get("Code", "")[:_MAX_TEXT_CHARACTERS], texts.get("Message", "")[:_MAX_TEXT_CHARACTERS]
