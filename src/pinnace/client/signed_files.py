"""Reads the files behind the URLs that a server signs for its DownloadRequests.

A module of its own, since most commands read no file. The library is the one that has asked the API server:
another one would take longer to load than the command runs.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec
import pycurl

from pinnace.aio.small_files import read_small_file
from pinnace.api.values.error_texts import error_text
from pinnace.client.errors import ClientError, FileMissing, PartsUnsupported
from pinnace.client.interface import DownloadOptions
from pinnace.kube.transport.curl import (
    Transfer,
    TransferFailed,
    Transfers,
    new_handle,
    trust_all,
    trust_the_system,
)
from pinnace.kube.transport.proxy import environment_proxy
from pinnace.store_access import tracing
from pinnace.store_access.answers import page_complaint, status_text
from pinnace.store_access.user_agent import user_agent

CHUNK_BYTES = 1 << 18
PROGRESS_BYTES = 1 << 20
"""A download goes on as long as this much comes in each `SLOW_SECONDS`, as a storage client's does."""
SLOW_SECONDS = 300.0
MOST_REDIRECTS = 3
_SHOWN_BYTES: Final = 2000
_URL_CHARACTERS: Final = "%/:=&?~#+!$,;'@()*[]"
"""What stays as it is in a URL beside letters, digits and `_.-`: it is signed as it was written."""
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})


class Trusted(msgspec.Struct, frozen=True):
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
async def present(
    opening: AbstractAsyncContextManager[AsyncIterator[bytes]], shown: str
) -> AsyncIterator[AsyncIterator[bytes]]:
    """A file that the manifest of its backup has. Raises SignatureRefused if it is not there any more."""
    from pinnace.storage.checked_files import removed  # few backups are signed

    async with AsyncExitStack() as stack:
        try:
            stream = await stack.enter_async_context(opening)
        except FileMissing:
            raise removed(shown) from None
        yield stream


@asynccontextmanager
async def _http_file(
    url: str, trusted: Trusted, span: tuple[int, int] | None = None
) -> AsyncIterator[AsyncIterator[bytes]]:
    """GET a signed URL. Raises FileMissing on 404, ClientError otherwise."""
    url = quote(url, safe=_URL_CHARACTERS)
    transfers = Transfers()
    try:
        url, transfer = await _answer(transfers, url, trusted, span)
        if transfer.status == 404:
            raise FileMissing("file not found")
        if span is not None and transfer.status == 200:
            raise PartsUnsupported("the store sends whole files only")
        if transfer.status != (200 if span is None else 206):
            body = (await _beginning(transfer)).decode(errors="replace")
            raise ClientError(f"request failed: {body or status_text(transfer.status)}")
        if complaint := page_complaint(transfer.headers.get("content-type", "")):
            raise ClientError(f"download from {_host(url)} failed: it answered with {complaint}")
        yield _blocks(transfer, _host(url))
    except TransferFailed as error:
        if error.code == pycurl.E_PEER_FAILED_VERIFICATION:
            raise ClientError(
                f"{error.text}\n\nThe --insecure-skip-tls-verify flag can also be used to accept "
                "any TLS certificate for the download, but it is susceptible to man-in-the-middle attacks."
            ) from error
        raise ClientError(f"download from {_host(url)} failed: {_reason(error)}") from error
    finally:
        transfers.close()


async def _answer(
    transfers: Transfers, url: str, trusted: Trusted, span: tuple[int, int] | None
) -> tuple[str, Transfer]:
    """The answer to a GET, after redirects to the store itself or to its https, and the URL that gave it.

    The store decides where others lead, which could be any service that this machine reaches.
    """
    for _ in range(1 + MOST_REDIRECTS):
        transfer = transfers.start(
            _handle(url, trusted, span),
            is_streamed=True,
            timeout_seconds=None,
            stall_seconds=trusted.options.timeout_seconds,
        )
        await _head(transfer, url)
        location = transfer.headers.get("location")
        if transfer.status not in _REDIRECTIONS or location is None:
            return url, transfer
        transfer.close()
        url = _redirected(url, location)
    raise ClientError(f"download from {_host(url)} failed: it redirects in circles")


async def _head(transfer: Transfer, url: str) -> None:
    """Wait for status and headers. Raises TransferFailed, and ClientError if they do not come in time."""
    parts = urlsplit(url)._replace(query="")
    traced = tracing.TracedRequest("GET", parts.geturl()) if tracing.traces() else None
    try:
        # Each byte of a header ends a silence, as in `_blocks`.
        async with asyncio.timeout(SLOW_SECONDS):
            await transfer.head()
    except TimeoutError as error:
        raise ClientError(f"download from {_host(url)} failed: no answer in time") from error
    except TransferFailed as error:
        if traced is not None:
            traced.failed(_reason(error))
        raise
    if traced is not None:
        traced.answered(transfer.status, ())


def _redirected(url: str, location: str) -> str:
    """The address that a redirect leads to. Raises ClientError if it is not followed."""
    try:
        target = quote(urljoin(url, location), safe=_URL_CHARACTERS)
        old, new = _origin(url), _origin(target)
    except ValueError:
        raise ClientError(f"download from {_host(url)} failed: it redirects to no URL") from None
    is_upgrade = (old[0], new[0]) == ("http", "https")
    if new[1] != old[1] or not (is_upgrade or new == old):
        raise ClientError(
            f"download from {_host(url)} failed: it redirects to"
            f" {_host(target) or new[0]}, which is not followed;"
            " are s3Url and publicUrl of the location right?"
        )
    return target


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port. Raises ValueError: it is no URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _host(url: str) -> str:
    """Host and port, for error texts: the rest of a signed URL gives access to the file."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _handle(url: str, trusted: Trusted, span: tuple[int, int] | None) -> Any:
    """The prepared GET. Raises ClientError: the URL or the CA bundle cannot be used."""
    try:
        scheme, _, _ = _origin(url)
    except ValueError:
        scheme = ""
    if scheme not in ("http", "https"):
        raise ClientError(f"download from {_host(url)} failed: its address is no HTTP URL")
    ca = _ca_bundle(trusted) if scheme == "https" else b""
    handle = new_handle(environment_proxy(url, os.environ))
    handle.setopt(pycurl.URL, url)
    # A store may keep a file as a gzip of its own, which it would unpack for a client that names none.
    handle.setopt(pycurl.HTTPHEADER, [f"User-Agent: {user_agent()}", "Accept-Encoding: gzip, deflate"])
    if span is not None:
        handle.setopt(pycurl.RANGE, f"{span[0]}-{span[0] + span[1] - 1}")
    if trusted.options.insecure:
        trust_all(handle)
    else:
        trust_the_system(handle)
    if ca:
        handle.setopt(pycurl.CAINFO_BLOB, ca)
    return handle


def _ca_bundle(trusted: Trusted) -> bytes:
    """The certificates to trust instead of the system's file: those in there, and the given ones.

    Empty if none are given. Raises ClientError: these cannot be used.
    """
    options = trusted.options
    if options.insecure or not (options.ca_cert or trusted.bundle):
        return b""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if options.ca_cert:
            given = read_small_file(Path(options.ca_cert))  # OpenSSL would read a file without end
            context.load_verify_locations(cafile=options.ca_cert)
        else:
            given = trusted.bundle.encode()
            context.load_verify_locations(cadata=trusted.bundle)
        system = ssl.get_default_verify_paths().cafile
        return b"\n".join([given, Path(system).read_bytes() if system is not None else b""])
    except ssl.SSLError as error:
        source = "--cacert" if options.ca_cert else "the backup storage location"
        raise ClientError(f"the CA bundle of {source} holds no certificate: {error.reason}") from error
    except OSError as error:
        raise ClientError(f"couldn't open cacert: {error_text(error)}") from error


def _reason(error: TransferFailed) -> str:
    """Why a download failed, in one line; libcurl's own texts could quote the signed URL."""
    if error.code == pycurl.E_OPERATION_TIMEDOUT:
        return "no answer in time"
    if error.proxy_status and not 200 <= error.proxy_status < 300:
        return f"the proxy on the way answers with HTTP status {error.proxy_status}"
    if error.os_error:
        return os.strerror(error.os_error)
    if error.code == pycurl.E_SSL_CONNECT_ERROR and "wrong version number" in error.text:
        return "the server at this port speaks no TLS: is it http:// and not https://?"
    return _REASONS.get(error.code, "the answer is not HTTP")


_REASONS: Final = {
    pycurl.E_COULDNT_RESOLVE_HOST: "its name cannot be resolved",
    pycurl.E_COULDNT_RESOLVE_PROXY: "the name of the proxy on the way cannot be resolved",
    pycurl.E_COULDNT_CONNECT: "no connection can be made",
    pycurl.E_SSL_CONNECT_ERROR: "no TLS connection can be made",
    pycurl.E_GOT_NOTHING: "it closed the connection without an answer",
    pycurl.E_PARTIAL_FILE: "the connection was cut in the middle of the file",
    pycurl.E_RECV_ERROR: "the connection was lost",
    pycurl.E_SEND_ERROR: "the connection was lost",
}


async def _beginning(transfer: Transfer) -> bytes:
    """The first bytes of a body, for an error text."""
    found = b""
    async for content in transfer.chunks():
        found += content
        if len(found) >= _SHOWN_BYTES:
            break
    return found[:_SHOWN_BYTES]


async def _blocks(transfer: Transfer, host: str) -> AsyncIterator[bytes]:
    """The body in blocks that bound what a reader has to unpack. Only the time of waiting for it counts.

    Raises:
        TransferFailed: the rest cannot be read.
        ClientError: hardly anything came. Each byte ends a silence, so a store could otherwise hold the
            command for ever.
    """
    loop = asyncio.get_running_loop()
    slow_bytes, slow_seconds, began = 0, 0.0, loop.time()
    async for content in transfer.chunks():
        slow_bytes += len(content)
        slow_seconds += loop.time() - began
        if slow_bytes >= PROGRESS_BYTES:
            slow_bytes, slow_seconds = 0, 0.0
        elif slow_seconds > SLOW_SECONDS:
            raise ClientError(
                f"download from {host} failed: it sent only {slow_bytes} bytes in {slow_seconds:.0f} seconds"
            )
        for begin in range(0, len(content), CHUNK_BYTES):
            yield content[begin : begin + CHUNK_BYTES]
        began = loop.time()


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
