"""Reads the files behind the URLs that a server signs for its DownloadRequests.

A module of its own, since most commands read no file, and the HTTP library takes longer to load than they
run.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiohttp
from yarl import URL

from pinnace.aio.small_files import read_small_file
from pinnace.api.values.error_texts import error_text
from pinnace.client.errors import ClientError, FileMissing, PartsUnsupported
from pinnace.client.interface import DownloadOptions
from pinnace.store_access import tracing
from pinnace.store_access.requests import Reply, RequestPolicy, reason_of, status_text, web_page

CHUNK_BYTES = 1 << 18
PROGRESS_BYTES = 1 << 20
"""A download goes on as long as this much comes in each `SLOW_SECONDS`, as a storage client's does."""
SLOW_SECONDS = RequestPolicy().upload_seconds
MOST_REDIRECTS = 3


@dataclass(frozen=True, slots=True)
class Trusted:
    """How a file is downloaded, and the CA bundle of its location as PEM; empty if it has none."""

    options: DownloadOptions
    bundle: str


def signed_file(
    url: str, trusted: Trusted, span: tuple[int, int] | None = None
) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
    """Read a file, or the part of it that begins at `span[0]` and has `span[1]` bytes.

    Raises:
        FileMissing: on entering, if there is no such file.
        PartsUnsupported: on entering, if the store sends whole files only.
        ClientError: all else.
    """
    return _local_file(url, span) if urlsplit(url).scheme == "file" else _http_file(url, trusted, span)


@asynccontextmanager
async def _http_file(
    url: str, trusted: Trusted, span: tuple[int, int] | None = None
) -> AsyncIterator[AsyncIterator[bytes]]:
    """GET a signed URL. Raises FileMissing on 404, ClientError otherwise."""
    options = trusted.options
    headers = {"Range": f"bytes={span[0]}-{span[0] + span[1] - 1}"} if span is not None else {}
    seconds = options.timeout_seconds
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=seconds, sock_read=seconds)
    try:
        async with (
            aiohttp.ClientSession(
                trust_env=True,
                timeout=timeout,
                auto_decompress=False,
                trace_configs=tracing.of_store(),
            ) as session,
            await _answer(session, url, trusted, headers) as response,
        ):
            if response.status == 404:
                raise FileMissing("file not found")
            if span is not None and response.status == 200:
                raise PartsUnsupported("the store sends whole files only")
            if response.status != (200 if span is None else 206):
                body = (await response.content.read(2000)).decode(errors="replace")
                raise ClientError(f"request failed: {body or status_text(response.status)}")
            if complaint := web_page(Reply(status=response.status, headers=response.headers, body=b"")):
                raise ClientError(
                    f"download from {urlsplit(url).netloc} failed: it answered with {complaint}"
                )
            yield _blocks(response)
    except aiohttp.ClientConnectorCertificateError as error:
        raise ClientError(
            f"{error.certificate_error}\n\nThe --insecure-skip-tls-verify flag can also be used to accept "
            "any TLS certificate for the download, but it is susceptible to man-in-the-middle attacks."
        ) from error
    except aiohttp.ClientError as error:
        # The signed URL gives access to the file, so it stays out of the message; other errors quote it.
        is_of_system = isinstance(error, aiohttp.ClientOSError | TimeoutError)
        reason = reason_of(error) if is_of_system else type(error).__name__
        raise ClientError(f"download from {urlsplit(url).netloc} failed: {reason}") from error


async def _answer(
    session: aiohttp.ClientSession, url: str, trusted: Trusted, headers: Mapping[str, str]
) -> aiohttp.ClientResponse:
    """The answer to a GET, after redirects to the store itself or to its https.

    The store decides where others lead, which could be any service that this machine reaches.
    """
    address = URL(url)
    for _ in range(1 + MOST_REDIRECTS):
        try:
            # Each byte of a header ends a silence, as in `_blocks`.
            async with asyncio.timeout(SLOW_SECONDS):
                response = await session.get(
                    address, ssl=_tls(trusted), headers=headers, allow_redirects=False
                )
        except TimeoutError as error:
            raise ClientError(f"download from {address.authority} failed: no answer in time") from error
        location = response.headers.get("Location")
        if response.status not in (301, 302, 303, 307, 308) or location is None:
            return response
        response.close()
        try:
            target = address.join(URL(location))
        except ValueError:
            raise ClientError(f"download from {address.authority} failed: it redirects to no URL") from None
        is_upgrade = (address.scheme, target.scheme) == ("http", "https")
        if target.host != address.host or not (is_upgrade or target.origin() == address.origin()):
            raise ClientError(
                f"download from {address.authority} failed: it redirects to"
                f" {target.authority or target.scheme}, which is not followed;"
                " are s3Url and publicUrl of the location right?"
            )
        address = target
    raise ClientError(f"download from {address.authority} failed: it redirects in circles")


async def _blocks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body. Only the time of waiting for it counts.

    Raises:
        ClientError: hardly anything came. Each byte ends a silence, so a store could otherwise hold the
            command for ever.
    """
    loop = asyncio.get_running_loop()
    slow_bytes, slow_seconds = 0, 0.0
    while True:
        began = loop.time()
        block = await response.content.read(CHUNK_BYTES)
        if not block:
            return
        slow_bytes += len(block)
        slow_seconds += loop.time() - began
        if slow_bytes >= PROGRESS_BYTES:
            slow_bytes, slow_seconds = 0, 0.0
        elif slow_seconds > SLOW_SECONDS:
            raise ClientError(
                f"download from {response.url.authority} failed: it sent only {slow_bytes} bytes in"
                f" {slow_seconds:.0f} seconds"
            )
        yield block


def _tls(trusted: Trusted) -> ssl.SSLContext | bool:
    options = trusted.options
    if options.insecure:
        return False
    if not options.ca_cert and not trusted.bundle:
        return True
    context = ssl.create_default_context()
    try:
        if options.ca_cert:
            read_small_file(Path(options.ca_cert))  # OpenSSL would read a file without end
            context.load_verify_locations(cafile=options.ca_cert)
        else:
            context.load_verify_locations(cadata=trusted.bundle)
    except ssl.SSLError as error:
        source = "--cacert" if options.ca_cert else "the backup storage location"
        raise ClientError(f"the CA bundle of {source} holds no certificate: {error.reason}") from error
    except OSError as error:
        raise ClientError(f"couldn't open cacert: {error_text(error)}") from error
    return context


@asynccontextmanager
async def _local_file(url: str, span: tuple[int, int] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
    """Read the file that a location on this machine's disk points at."""
    path = unquote(urlsplit(url).path)
    try:
        file = await asyncio.to_thread(open, path, "rb")
    except FileNotFoundError as error:
        raise FileMissing(
            f"file not found: {path} (the location is a folder of the server's machine)"
        ) from error
    except OSError as error:
        raise ClientError(f"cannot read {path}: {error.strerror}") from error

    async def chunks() -> AsyncIterator[bytes]:
        if span is not None:
            file.seek(span[0])
        left = span[1] if span is not None else None
        while chunk := await asyncio.to_thread(
            file.read, CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)
        ):
            left = None if left is None else left - len(chunk)
            yield chunk

    try:
        yield chunks()
    finally:
        file.close()
