"""Runs libcurl on the event loop: an asyncio program can start, await, read and cancel transfers.

libcurl is used for what it does best: reuse of connections, TLS, proxies, and bodies that are received
without a Python call for each piece. It names the sockets that it waits for and its next timer; the event
loop watches both. (docs/adr/007)
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import Any

import pycurl

from pinnace.kube.transport.proxy import split_proxy

BUFFER_BYTES = 512 * 1024
LOOKS = 4
"""How many checks for silence are made within the time allowed; silence is noticed at most a quarter late."""
PAUSE_BYTES = 4 * 2**20
"""A reader that falls this far behind makes the transfer pause."""
_SUPPRESS_CONNECT_HEADERS = 265
"""Keeps a proxy's headers for CONNECT out of the answer; libcurl's number, as pycurl has no name for it."""


def new_handle(proxy: str | None) -> Any:
    """A `pycurl.Curl` with what all transfers have in common.

    Args:
        proxy: the URL of the HTTP proxy, which may have a user and a password; None for none.
    """
    handle = pycurl.Curl()
    setopt = handle.setopt
    setopt(pycurl.NOSIGNAL, 1)
    setopt(pycurl.BUFFERSIZE, BUFFER_BYTES)
    setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    # A redirect could take credentials elsewhere.
    setopt(pycurl.FOLLOWLOCATION, 0)
    # The environment was already read, by Go's rules; an empty text keeps libcurl from reading it.
    bare, headers = split_proxy(proxy)
    setopt(pycurl.PROXY, bare or "")
    setopt(pycurl.NOPROXY, "")
    if headers:
        setopt(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)
        setopt(pycurl.PROXYHEADER, [f"{name}: {value}" for name, value in headers.items()])
    setopt(_SUPPRESS_CONNECT_HEADERS, 1)
    setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)
    return handle


def trust_the_system(handle: Any) -> None:
    """Trust the certificates that Python trusts: libcurl's default is that of the machine it was built on."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile is not None:
        handle.setopt(pycurl.CAINFO, paths.cafile)
    if paths.capath is not None:
        handle.setopt(pycurl.CAPATH, paths.capath)


def trust_all(handle: Any) -> None:
    """Trust any certificate."""
    handle.setopt(pycurl.SSL_VERIFYPEER, 0)
    handle.setopt(pycurl.SSL_VERIFYHOST, 0)


class TransferFailed(Exception):
    """libcurl's error for one transfer; `connection` turns it into an error of `kube.errors`.

    Attributes:
        code: one of libcurl's CURLE_ numbers.
        text: libcurl's text. It names hosts, never header fields; it could quote a whole URL, with its
            password.
        os_error: errno of the failed call, or 0.
        proxy_status: the status of a proxy's answer to CONNECT, or 0.
        was_connected: whether a connection, TLS included, existed; otherwise nothing was sent.
    """

    def __init__(
        self, code: int, text: str, *, os_error: int = 0, proxy_status: int = 0, was_connected: bool = True
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.os_error = os_error
        self.proxy_status = proxy_status
        self.was_connected = was_connected


class ClientClosed(TransferFailed):
    """The client was closed while the transfer ran."""


class Transfer:
    """One request and its answer. Made by `Transfers.start`.

    Attributes:
        status: of the answer; 0 until there is one.
        headers: of the answer, with names in lower case; the last one of repeated headers.
    """

    def __init__(
        self,
        handle: Any,
        transfers: "Transfers",
        loop: asyncio.AbstractEventLoop,
        *,
        is_streamed: bool,
        stall_seconds: float | None,
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._handle = handle
        self._transfers = transfers
        self._loop = loop
        self._chunks: list[bytes] = []
        self._unread_bytes = 0
        self._is_paused = False
        self._has_head = False
        self._end: Exception | bool = False
        self._wakes: asyncio.Future[None] | None = None
        handle.setopt(pycurl.HEADERFUNCTION, self._take_header)
        # Megabytes arrive in pieces of a few kilobytes: no Python code may run for each of them.
        handle.setopt(pycurl.WRITEFUNCTION, self._take_chunk if is_streamed else self._chunks.append)
        self._look_seconds = (stall_seconds or 0.0) / LOOKS
        self._silent_looks = 0
        self._heard = 0.0
        self._watchdog = loop.call_later(self._look_seconds, self._look) if stall_seconds else None

    async def head(self) -> None:
        """Wait for status and headers. Raises TransferFailed."""
        while not self._has_head and not self._end:
            await self._woken()
        if isinstance(self._end, Exception):
            raise self._end

    async def body(self) -> bytes:
        """The rest of the body. Raises TransferFailed."""
        while not self._end:
            await self._woken()
        if isinstance(self._end, Exception):
            raise self._end
        content = b"".join(self._chunks)
        self._chunks.clear()
        return content

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives; a slow reader slows the server down. Raises TransferFailed."""
        while True:
            if self._chunks:
                content = b"".join(self._chunks)
                self._chunks.clear()
                self._unread_bytes = 0
                if self._is_paused:
                    self._is_paused = False
                    self._handle.pause(pycurl.PAUSE_CONT)
                yield content
            elif isinstance(self._end, Exception):
                raise self._end
            elif self._end:
                return
            else:
                await self._woken()

    def close(self) -> None:
        """Stop the transfer, if it still runs, and free its resources."""
        self._end_watch()
        self._transfers.forget(self._handle)
        self._handle.close()

    def end(self, error: Exception | None) -> None:
        """Mark the transfer as finished, successfully or with an error."""
        if not self._end:
            self._end = error or True
            self._end_watch()
            self._wake()

    def _end_watch(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()

    def _look(self) -> None:
        """End the transfer if the server was silent in as many successive checks as the limit allows."""
        heard = self._handle.getinfo(pycurl.SIZE_DOWNLOAD_T) + self._handle.getinfo(pycurl.HEADER_SIZE)
        is_silent = heard == self._heard and not self._is_paused
        self._silent_looks = self._silent_looks + 1 if is_silent else 0
        self._heard = heard
        if self._silent_looks >= LOOKS:
            self.end(TransferFailed(pycurl.E_OPERATION_TIMEDOUT, "the server fell silent"))
        else:
            self._watchdog = self._loop.call_later(self._look_seconds, self._look)

    async def _woken(self) -> None:
        self._wakes = self._loop.create_future()
        try:
            await self._wakes
        finally:
            self._wakes = None

    def _wake(self) -> None:
        if self._wakes is not None and not self._wakes.done():
            self._wakes.set_result(None)

    def _take_header(self, line: bytes) -> None:
        if line.startswith(b"HTTP/"):
            # Starts again after an interim answer (1xx), which does not count.
            fields = line.split(None, 2)
            self.status = int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else 0
            self.headers.clear()
        elif line.strip():
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
        elif self.status >= 200:
            self._has_head = True
            self._wake()

    def _take_chunk(self, chunk: bytes) -> int | None:
        if self._unread_bytes >= PAUSE_BYTES:
            self._is_paused = True
            pause: int = pycurl.WRITEFUNC_PAUSE
            return pause
        self._chunks.append(chunk)
        self._unread_bytes += len(chunk)
        self._wake()
        return None


class Transfers:
    """All transfers of one client, and the connections they share. Belongs to the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._timer: asyncio.TimerHandle | None = None
        self._watched: set[int] = set()
        self._running: dict[Any, Transfer] = {}

    def start(
        self, handle: Any, *, is_streamed: bool, timeout_seconds: float | None, stall_seconds: float | None
    ) -> Transfer:
        """Start the transfer of a prepared handle. The caller must close it, finished or not.

        Args:
            handle: a `pycurl.Curl`; closed with the transfer.
            is_streamed: the body is read with `chunks()`, not with `body()`.
            timeout_seconds: from now to the last byte; None for any.
            stall_seconds: the longest silence of the server; None for any.
        """
        if timeout_seconds is not None:
            handle.setopt(pycurl.TIMEOUT_MS, max(1, int(timeout_seconds * 1000)))
        transfer = Transfer(handle, self, self._loop, is_streamed=is_streamed, stall_seconds=stall_seconds)
        self._running[handle] = transfer
        self._multi.add_handle(handle)
        return transfer

    def forget(self, handle: Any) -> None:
        """Remove a transfer, finished or not; a connection in the middle of an answer is closed."""
        if self._running.pop(handle, None) is not None:
            self._multi.remove_handle(handle)

    def close(self) -> None:
        """Close all connections, and end the transfers that still run."""
        self._set_timer(-1)
        for handle, transfer in tuple(self._running.items()):
            self.forget(handle)
            transfer.end(ClientClosed(pycurl.E_ABORTED_BY_CALLBACK, "the client was closed"))
        self._multi.close()
        for descriptor in tuple(self._watched):
            self._watch(pycurl.POLL_REMOVE, descriptor, None, None)

    def _watch(self, what: int, descriptor: int, _multi: object, _data: object) -> None:
        # libcurl calls this before it closes a socket, so its number cannot mean another socket yet.
        loop = self._loop
        if descriptor in self._watched:
            loop.remove_reader(descriptor)
            loop.remove_writer(descriptor)
            self._watched.discard(descriptor)
        if what == pycurl.POLL_REMOVE:
            return
        self._watched.add(descriptor)
        if what & pycurl.POLL_IN:
            loop.add_reader(descriptor, self._act, descriptor, pycurl.CSELECT_IN)
        if what & pycurl.POLL_OUT:
            loop.add_writer(descriptor, self._act, descriptor, pycurl.CSELECT_OUT)

    def _set_timer(self, milliseconds: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if milliseconds >= 0:
            self._timer = self._loop.call_later(milliseconds / 1000, self._act, pycurl.SOCKET_TIMEOUT, 0)

    def _act(self, descriptor: int, events: int) -> None:
        self._multi.socket_action(descriptor, events)
        while True:
            left, done, failed = self._multi.info_read()
            for handle in done:
                self._finish(handle, None)
            for handle, code, text in failed:
                self._finish(handle, _failure(handle, code, text))
            if not left:
                return

    def _finish(self, handle: Any, error: TransferFailed | None) -> None:
        transfer = self._running.pop(handle, None)
        if transfer is not None:
            self._multi.remove_handle(handle)
            transfer.end(error)


def _failure(handle: Any, code: int, text: str) -> TransferFailed:
    return TransferFailed(
        code,
        text,
        os_error=handle.getinfo(pycurl.OS_ERRNO),
        proxy_status=handle.getinfo(pycurl.HTTP_CONNECTCODE),
        was_connected=handle.getinfo(pycurl.PRETRANSFER_TIME) > 0,
    )
