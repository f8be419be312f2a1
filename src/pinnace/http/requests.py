"""Requests over HTTP to object stores and clouds: TLS, bounded retries, errors as clear texts.

Answers are read whole, within a limit; downloads, which are streamed, are the work of obstore (S3) and of
downloads.py (the others).
"""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from xml.etree import ElementTree

import aiohttp
from yarl import URL

from pinnace import __version__
from pinnace.http.addresses import Addresses
from pinnace.http.connector import Connector
from pinnace.http.errors import StorageError, StoreConfigError, StoreUnavailable

USER_AGENT = f"pinnace/{__version__}"

CONNECT_SECONDS = 10.0
_MAX_BODY_BYTES = 16 << 20
_MAX_TEXT_CHARACTERS = 300
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently a request is tried.

    Attributes:
        attempts: the first try included.
        delay_seconds: the wait before the second try at most; doubled for each further one.
        request_seconds: the deadline of one request that moves little data.
        upload_seconds: the deadline of one request that sends a part of an object.
    """

    attempts: int = 5
    delay_seconds: float = 0.2
    request_seconds: float = 60.0
    upload_seconds: float = 300.0

    async def wait(self, tries: int) -> None:
        """Wait after `tries` failed tries: a random part of the growing delay, so that clients spread out."""
        jitter = random.random()  # noqa: S311 - spreads load, protects nothing
        await asyncio.sleep(self.delay_seconds * 2 ** (tries - 1) * jitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP answer whose body has been read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def tls_context(ca_cert: str, *, insecure: bool) -> ssl.SSLContext:
    """What to trust: `ca_cert` instead of the system's roots if given, or anything. (docs/spec: STO 14.1)

    Raises:
        StoreConfigError: `ca_cert` holds no certificate.
    """
    try:
        context = ssl.create_default_context(cadata=ca_cert or None)
    except ssl.SSLError as error:
        raise StoreConfigError("caCert is not a PEM certificate bundle") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def new_session(
    tls: ssl.SSLContext, *, use_proxy: bool = True, addresses: Addresses | None = None
) -> aiohttp.ClientSession:
    """A session that the caller closes. Metadata services and tenants' stores are asked without a proxy.

    Args:
        addresses: where connections may go; None is anywhere.
    """
    return aiohttp.ClientSession(
        connector=Connector(ssl=tls, limit=16, addresses=addresses),
        headers={"User-Agent": USER_AGENT},
        auto_decompress=False,
        trust_env=use_proxy and addresses is None,
    )


async def send(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    policy: RetryPolicy,
    headers: Callable[[], Awaitable[Mapping[str, str]]] | None = None,
    data: Mapping[str, str] | bytes | None = None,
) -> Reply:
    """Send an idempotent request, again after transient faults, and return the last answer of any status.

    Args:
        url: complete and quoted; sent as it is.
        headers: asked before every try, as signatures grow old.
        data: the body, or the fields of a form.

    Raises:
        StoreUnavailable: no answer, after all tries.
    """
    for tries in range(1, policy.attempts + 1):
        last = tries == policy.attempts
        try:
            reply = await _send_once(
                session, method, url, await headers() if headers else {}, data, policy=policy
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            if last or isinstance(error, aiohttp.ClientConnectorCertificateError):
                raise StoreUnavailable(f"cannot reach {origin_of(url)}: {reason_of(error)}") from error
        else:
            if last or reply.status not in RETRIED_STATUSES:
                return reply
        await policy.wait(tries)
    raise AssertionError("the last try returns or raises")


async def _send_once(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    headers: Mapping[str, str],
    data: Mapping[str, str] | bytes | None,
    *,
    policy: RetryPolicy,
) -> Reply:
    seconds = policy.upload_seconds if isinstance(data, bytes) else policy.request_seconds
    async with session.request(
        method,
        URL(url, encoded=True),
        headers=headers,
        data=BytesIO(data) if isinstance(data, bytes) else data,  # sent in pieces, unlike plain bytes
        allow_redirects=False,
        timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS),
    ) as answer:
        body = bytearray()
        async for block in answer.content.iter_chunked(1 << 16):
            body += block
            if len(body) > _MAX_BODY_BYTES:
                raise StorageError(f"{origin_of(url)} answered with more than {_MAX_BODY_BYTES} bytes")
        return Reply(status=answer.status, headers=answer.headers, body=bytes(body))


def origin_of(url: str) -> str:
    """Scheme and host of a URL, which is all of it that error texts show."""
    parts = URL(url, encoded=True)
    return f"{parts.scheme}://{parts.authority}"


def reason_of(error: Exception) -> str:
    """Why a connection failed, in one line."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0][:_MAX_TEXT_CHARACTERS]


def parse_xml(body: bytes, what: str) -> ElementTree.Element:
    """Parse an S3 answer. Expat refuses entity bombs by itself, and the body has been limited.

    Raises:
        StorageError: it is not XML.
    """
    try:
        return ElementTree.fromstring(body)  # noqa: S314
    except ElementTree.ParseError as error:
        raise StorageError(f"{what}: the answer is not an S3 answer") from error


def local_name(element: ElementTree.Element) -> str:
    """The tag without its namespace, which S3-compatible stores spell in several ways."""
    return element.tag.rpartition("}")[2]


def child_text(element: ElementTree.Element, name: str) -> str:
    """The text of the first child of that name, empty if there is none."""
    return next((child.text or "" for child in element if local_name(child) == name), "")


def error_for(what: str, status: int, body: bytes | str) -> StorageError:
    """The error that an answer of an error status means.

    Of the body only `Code` and `Message` are shown: others hold key ids and what was signed.
    """
    code, message = code_and_message(body)
    text = f"{what}: {message or 'HTTP status ' + str(status)}{f' ({code})' if code else ''}"
    if code == "NoSuchBucket":
        return StoreConfigError(text)
    if status in RETRIED_STATUSES:
        return StoreUnavailable(text)
    return StorageError(text)


def code_and_message(body: bytes | str) -> tuple[str, str]:
    """What an answer of an error status says of its reason; empty texts if nothing."""
    try:
        root = ElementTree.fromstring(body) if body else None  # noqa: S314
    except (ElementTree.ParseError, ValueError):
        root = None
    if root is None:
        return "", ""
    # Anywhere in it: S3 has them at the top, STS one level below.
    texts = {local_name(element): " ".join((element.text or "").split()) for element in root.iter()}
    return texts.get("Code", "")[:_MAX_TEXT_CHARACTERS], texts.get("Message", "")[:_MAX_TEXT_CHARACTERS]
