"""Files through DownloadRequests: a scripted cluster, and a web server with and without faults."""

import asyncio
import base64
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from hack.cluster.pki import CertificateAuthority
from pinnace.api.velero.download_request import OF_VELERO_1_6, DownloadTargetKind
from pinnace.cli.backup.downloading import write_file
from pinnace.cli.connect import caller
from pinnace.cli.errors import CommandError
from pinnace.client import server as server_backend
from pinnace.client import signed_files
from pinnace.client.errors import ClientError, FileMissing, PartsUnsupported
from pinnace.client.interface import DownloadOptions, fetch
from pinnace.client.server import ServerBackend
from pinnace.kube import errors as kube_errors
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.manifest import NOT_SIGNED, ManifestFile
from tests.support.cluster.scripted_cluster import ScriptedCluster

LOG, CONTENTS = DownloadTargetKind.BACKUP_LOG, DownloadTargetKind.BACKUP_CONTENTS
OPTIONS = DownloadOptions(timeout_seconds=10)
TARBALL = gzip.compress(b"what a tarball holds\n" * 100)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AnsweringCluster(ScriptedCluster):
    """A cluster whose server answers each DownloadRequest at once, with the URL or with `answer`."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.answer: dict[str, Any] = {}
        self.on_create = self._serve

    def _serve(self, request: dict[str, Any]) -> None:
        request["status"] = {"downloadURL": self.url} if self.url else self.answer

    @property
    def asked(self) -> list[dict[str, Any]]:
        return list(self.sent.values())


def backend(cluster: AnsweringCluster) -> ServerBackend:
    return ServerBackend(cluster.client, "velero", caller())


async def fetched(
    url: str, kind: DownloadTargetKind = LOG, *, options: DownloadOptions = OPTIONS, name: str = "b"
) -> bytes:
    sink = BytesIO()
    await fetch(backend(AnsweringCluster(url)), kind, name, options, sink)
    return sink.getvalue()


@asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/file", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/file?signature=secret"
    finally:
        await runner.cleanup()


def answer(body: bytes, status: int = 200) -> Handler:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=body, status=status)

    return handler


async def test_logs_are_decompressed_and_tarballs_are_not() -> None:
    packed = gzip.compress(b"line\n" * 100_000)
    async with serving(answer(packed)) as url:
        assert await fetched(url) == b"line\n" * 100_000
        assert await fetched(url, CONTENTS) == packed


async def test_a_file_that_is_not_compressed_passes_as_it_is() -> None:
    async with serving(answer(b"plain")) as url:
        assert await fetched(url) == b"plain"


async def test_requests_name_target_and_namespace_and_have_distinct_names() -> None:
    long_name = "n" * 250
    async with serving(answer(b"")) as url:
        cluster = AnsweringCluster(url)
        for _ in range(3):
            await fetch(backend(cluster), LOG, long_name, OPTIONS, BytesIO())

    names = [request["metadata"]["name"] for request in cluster.asked]
    assert len(set(names)) == 3
    assert all(len(name) <= 253 for name in names)
    assert cluster.asked[0]["spec"] == {"target": {"kind": "BackupLog", "name": long_name}}
    assert cluster.asked[0]["metadata"]["namespace"] == "velero"


@pytest.mark.spec("CLI-028")
async def test_a_server_that_never_answers_is_a_timeout_with_advice() -> None:
    with pytest.raises(ClientError) as caught:
        await fetched("", options=DownloadOptions(timeout_seconds=0.05))

    assert str(caught.value) == (
        "timed out after 0.05s waiting for the log of b; "
        "is the server in namespace velero running? Can it open the storage location "
        "(`pinnace backup-location get`)?"
    )


async def test_further_files_of_an_object_are_not_waited_for_after_a_timeout() -> None:
    """A description reads several, and would wait for each."""
    cluster = AnsweringCluster("")
    silent = backend(cluster)
    for _ in range(2):
        with pytest.raises(ClientError, match="timed out after"):
            await fetch(silent, LOG, "b", DownloadOptions(timeout_seconds=0.05), BytesIO())
    assert len(cluster.asked) == 1

    with pytest.raises(ClientError, match="timed out after"):
        await fetch(silent, LOG, "another", DownloadOptions(timeout_seconds=0.05), BytesIO())
    assert len(cluster.asked) == 2


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_backend, "LATE_POLLS", 1)
    monkeypatch.setattr(server_backend, "LATE_POLL_SECONDS", 0.01)


def with_location(status: dict[str, str]) -> AnsweringCluster:
    cluster = AnsweringCluster("")
    cluster.add("restores", "r", spec={"backupName": "b"})
    cluster.add("backups", "b", spec={"storageLocation": "far"})
    cluster.add("backupstoragelocations", "far", status=status)
    return cluster


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "target", [(LOG, "b"), (DownloadTargetKind.RESTORE_LOG, "r")], ids=["backup", "restore"]
)
async def test_a_location_that_cannot_be_used_is_named_at_once(
    target: tuple[DownloadTargetKind, str],
) -> None:
    cluster = with_location({"phase": "Unavailable", "message": "gone"})
    with pytest.raises(ClientError) as caught:
        await fetch(backend(cluster), *target, OPTIONS, BytesIO())

    assert str(caught.value) == (
        f'the log of {target[1]} lies in backup storage location "far", which is Unavailable: gone'
    )


@pytest.mark.parametrize("kind", [LOG, CONTENTS])
async def test_a_file_that_was_signed_and_is_gone_is_refused_and_not_just_missing(
    tmp_path: Path, kind: DownloadTargetKind
) -> None:
    signed = ManifestFile(sha256="a" * 64, size_bytes=7)
    with pytest.raises(SignatureRefused, match="removed after the backup was signed"):
        await fetched(f"{(tmp_path / 'gone').as_uri()}{signed.fragment}", kind)


async def test_a_file_that_a_signed_backup_never_had_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        await fetched(f"{(tmp_path / 'none').as_uri()}{NOT_SIGNED.fragment}")


@pytest.mark.spec("AFT-006")
@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            'backup "b" is in phase "Queued" and has not written any artifacts',
            "the server cannot give out the log of b: "
            'backup "b" is in phase "Queued" and has not written any artifacts',
        ),
        ("", "the server cannot give out the log of b: it says why in its log"),
    ],
)
async def test_a_request_that_a_later_server_failed_ends_at_once(message: str, told: str) -> None:
    cluster = AnsweringCluster("")
    cluster.answer = {"phase": "Failed", "message": message}
    with pytest.raises(ClientError) as caught:
        await fetch(backend(cluster), LOG, "b", OPTIONS, BytesIO())

    assert str(caught.value) == told


@pytest.mark.usefixtures("impatient")
async def test_the_file_of_a_deleted_backup_is_an_error() -> None:
    cluster = with_location({})
    cluster.vanish("backups", "b")
    with pytest.raises(ClientError, match=r'cannot find the log of r: backups.velero.io "b" not found'):
        await fetch(backend(cluster), DownloadTargetKind.RESTORE_LOG, "r", OPTIONS, BytesIO())


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("available", [True, False])
async def test_a_late_answer_is_waited_for_if_no_obstacle_is_known(available: bool) -> None:
    cluster = with_location({"phase": "Available"})
    if not available:
        cluster.refuse("get", "backups", kube_errors.Forbidden(403))
    with pytest.raises(ClientError, match="timed out after"):
        await fetch(backend(cluster), LOG, "b", DownloadOptions(timeout_seconds=0.2), BytesIO())


@pytest.mark.spec("CLI-027")
async def test_refusals_of_the_store_are_errors() -> None:
    async with serving(answer(b"x", 500)) as url:
        with pytest.raises(ClientError, match=r"^request failed: x$"):
            await fetched(url)
    async with serving(answer(b"", 403)) as url:
        with pytest.raises(ClientError, match=r"^request failed: HTTP status 403$"):
            await fetched(url)
    async with serving(answer(b"", 404)) as url:
        with pytest.raises(FileMissing, match="file not found"):
            await fetched(url)
    with pytest.raises(ClientError, match=r"failed: Connection refused"):
        await fetched(url)


@pytest.mark.parametrize("cut", [b"", gzip.compress(b"line\n" * 1000)[:-9]], ids=["at once", "in the middle"])
async def test_a_connection_that_breaks_does_not_show_the_signed_url(cut: bytes) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(cut)
        assert request.transport is not None
        request.transport.close()
        return response

    async with serving(handler) as url:
        host = urlsplit(url).netloc
        with pytest.raises(ClientError) as caught:
            await fetched(url)

    assert str(caught.value) == (
        f"download from {host} failed: the connection was cut in the middle of the file"
    )


@pytest.mark.parametrize(
    ("sent", "scheme", "reason"),
    [
        (b"220 mail.example ESMTP\r\n", "http", "the answer is not HTTP"),
        (b"", "http", "it closed the connection without an answer"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "https", "the server at this port speaks no TLS"),
        (b"", "ftp", "its address is no HTTP URL"),
    ],
)
async def test_another_answer_is_told_without_the_signed_url(sent: bytes, scheme: str, reason: str) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(sent)
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ClientError) as caught:
            await fetched(f"{scheme}://user:secret@{host}/file?signature=secret")

    assert str(caught.value).startswith(f"download from {host} failed: {reason}")
    assert "secret" not in str(caught.value)


async def test_a_url_is_sent_as_it_was_signed() -> None:
    asked = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.raw_path)
        return web.Response(body=b"x")

    query = "?a=%2Fb%20c+d=&X-Amz-Credential=k/20260101/s3&e=a~b"
    async with serving(handler) as url:
        assert await fetched(url.partition("?")[0] + query) == b"x"
    assert asked == [f"/file{query}"]


async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode().splitlines())
        status = "403 Forbidden" if seen[-1][0].startswith("CONNECT") else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 1\r\n\r\nx".encode())
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        for variable in ("HTTP_PROXY", "HTTPS_PROXY"):
            port = server.sockets[0].getsockname()[1]
            monkeypatch.setenv(variable, f"http://u:p@127.0.0.1:{port}")
        assert await fetched("http://store.invalid/file?signature=1") == b"x"
        refused = r"^download from store\.invalid failed: the proxy on the way answers with HTTP status 403$"
        with pytest.raises(ClientError, match=refused):
            await fetched("https://store.invalid/file?signature=1")

    assert seen[0][0] == "GET http://store.invalid/file?signature=1 HTTP/1.1"
    assert "Proxy-Authorization: Basic dTpw" in seen[0]
    assert seen[1][0] == "CONNECT store.invalid:443 HTTP/1.1"


async def test_a_part_is_read_by_range_or_refused() -> None:
    async def parts(request: web.Request) -> web.StreamResponse:
        assert request.headers["Range"] == "bytes=2-4"
        return web.Response(status=206, body=b"cde")

    async def part(url: str) -> bytes:
        async with backend(AnsweringCluster(url)).stored_part(CONTENTS, "b", (2, 3), OPTIONS) as blocks:
            return b"".join([block async for block in blocks])

    async with serving(parts) as url:
        assert await part(url) == b"cde"
    async with serving(answer(b"abcdefg")) as url:
        with pytest.raises(PartsUnsupported, match="whole files only"):
            await part(url)


async def test_a_large_file_comes_in_blocks_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader unpacks a block at once, and a block can hold a thousand times its size."""
    monkeypatch.setattr(signed_files, "CHUNK_BYTES", 1000)
    content = bytes(range(256)) * 1000
    async with (
        serving(answer(content)) as url,
        backend(AnsweringCluster(url)).stored_file(CONTENTS, "b", OPTIONS) as blocks,
    ):
        found = [block async for block in blocks]

    assert b"".join(found) == content
    assert max(map(len, found)) == 1000


async def test_silence_ends_a_download_but_slowness_does_not() -> None:
    steps: list[asyncio.Event] = [asyncio.Event() for _ in range(2)]

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        steps[0].set()
        await steps[1].wait()
        return response

    async with serving(handler) as url:
        with pytest.raises(ClientError, match=r"download from 127\.0\.0\.1:"):
            await fetched(url, CONTENTS, options=DownloadOptions(timeout_seconds=0.5))
        steps[1].set()
    assert steps[0].is_set()


async def test_a_store_that_hardly_sends_anything_does_not_hold_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signed_files, "SLOW_SECONDS", 0.3)

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.01)

    async with serving(handler) as url:
        with pytest.raises(
            ClientError, match=r"download from 127\.0\.0\.1:\d+ failed: it sent only \d+ bytes in"
        ):
            await fetched(url, CONTENTS)


async def test_headers_that_hardly_come_do_not_hold_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_files, "SLOW_SECONDS", 0.3)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nX-Name: ")
        with suppress(ConnectionError):  # a reset is a hang-up, too
            while not reader.at_eof():
                writer.write(b"x")
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.01)
        writer.close()
        hung_up.set()

    hung_up = asyncio.Event()
    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ClientError, match=rf"^download from {host} failed: no answer in time$"):
            await asyncio.wait_for(fetched(f"http://{host}/file?signature=secret"), 20)
        await asyncio.wait_for(hung_up.wait(), 20)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_of_a_store_is_not_followed(status: int) -> None:
    async def elsewhere(_request: web.Request) -> web.StreamResponse:
        raise AssertionError("the other service was asked")

    async with serving(elsewhere) as forbidden:

        async def handler(_request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": forbidden})

        async with serving(handler) as url:
            refused = rf"^download from \S+ failed: it redirects to {urlsplit(forbidden).netloc}, which"
            with pytest.raises(ClientError, match=refused):
                await fetched(url)


@pytest.mark.parametrize(
    "location", ["https://other.invalid/a", "//other.invalid/a", "ftp://127.0.0.1/a", "file:///etc/passwd"]
)
async def test_a_redirect_is_not_followed_to_another_host(location: str) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": location})

    async with serving(handler) as url:
        with pytest.raises(ClientError, match="which is not followed"):
            await fetched(url)


async def test_a_redirect_within_a_store_is_followed_but_not_in_circles() -> None:
    ways = {"secret": "?signature=second", "second": "/file?signature=whole"}

    async def handler(request: web.Request) -> web.StreamResponse:
        signature = request.query["signature"]
        if signature == "whole":
            return web.Response(body=gzip.compress(b"whole"))
        return web.Response(status=307, headers={"Location": ways[signature]})

    async with serving(handler) as url:
        assert await fetched(url) == b"whole"
        ways["second"] = "/file?signature=secret"
        with pytest.raises(ClientError, match="it redirects in circles"):
            await fetched(url)


async def test_a_damaged_file_is_an_error() -> None:
    whole = gzip.compress(b"line\n" * 1000)
    async with serving(answer(whole[:-9])) as url:
        with pytest.raises(ClientError, match="the stored file is damaged: the gzip data is cut off"):
            await fetched(url)
    async with serving(answer(whole[:20] + b"\xff" * 20)) as url:
        with pytest.raises(ClientError, match="is damaged"):
            await fetched(url)


async def test_a_file_of_several_gzip_members_is_read_as_a_whole() -> None:
    async with serving(answer(gzip.compress(b"one\n") + gzip.compress(b"two\n"))) as url:
        assert await fetched(url) == b"one\ntwo\n"


LOGIN = b"<!DOCTYPE html><title>Sign in</title>"


@pytest.mark.parametrize("kind", [LOG, CONTENTS])
async def test_a_web_page_in_place_of_a_file_is_an_error(kind: DownloadTargetKind) -> None:
    async def login(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=LOGIN, content_type="text/html")

    async with serving(login) as url:
        with pytest.raises(ClientError, match="is there a proxy or a login page in the way") as caught:
            await fetched(url, kind)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "body", [b"", LOGIN, TARBALL[:-9], b"\0" + TARBALL[1:]], ids=["empty", "page", "cut off", "damaged"]
)
async def test_an_incomplete_tarball_is_not_kept(tmp_path: Path, body: bytes) -> None:
    async with serving(answer(body)) as url:
        with pytest.raises(CommandError, match="is not the whole tarball of backup b"):
            await write_file(backend(AnsweringCluster(url)), "b", tmp_path / "b-data.tar.gz", OPTIONS)

    assert _files(tmp_path) == {}


@pytest.mark.spec("CLI-027")
async def test_certificates_are_verified_unless_asked_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = CertificateAuthority(tmp_path, name="CA")
    pair = authority.issue_server("server", addresses=("127.0.0.1",), names=("store.example",))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    async with serving(answer(b"x"), tls=tls) as url:
        with pytest.raises(ClientError) as caught:
            await fetched(url)
        assert "The --insecure-skip-tls-verify flag can also be used" in str(caught.value)
        assert "secret" not in str(caught.value)
        trusting = DownloadOptions(timeout_seconds=10, ca_cert=str(authority.certificate))
        assert await fetched(url, options=trusting) == b"x"
        assert await fetched(url, options=DownloadOptions(timeout_seconds=10, insecure=True)) == b"x"
        # A given bundle adds to the system's certificates.
        other = CertificateAuthority(tmp_path / "other", name="another CA")
        given = DownloadOptions(timeout_seconds=10, ca_cert=str(other.certificate))
        with pytest.raises(ClientError, match="certificate"):
            await fetched(url, options=given)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        assert await fetched(url, options=given) == b"x"
        assert await fetched(url) == b"x"
        with pytest.raises(ClientError, match="no alternative certificate subject name"):
            await fetched(url.replace("127.0.0.1", "localhost"))
        missing = DownloadOptions(timeout_seconds=10, ca_cert=str(tmp_path / "missing"))
        with pytest.raises(ClientError, match="couldn't open cacert"):
            await fetched(url, options=missing)


@pytest.mark.parametrize("kind", [LOG, DownloadTargetKind.RESTORE_LOG])
@pytest.mark.parametrize("way", ["caCert", "caCertRef"])
async def test_the_ca_bundle_of_the_location_is_trusted_too(
    tmp_path: Path, kind: DownloadTargetKind, way: str
) -> None:
    authority = CertificateAuthority(tmp_path, name="CA")
    pair = authority.issue_server("server", addresses=("127.0.0.1",), names=("localhost",))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    storage: dict[str, Any] = {"caCert": bundle} if way == "caCert" else {}
    if way == "caCertRef":
        storage["caCertRef"] = {"name": "trust", "key": "ca.crt"}
    async with serving(answer(b"x"), tls=tls) as url:
        cluster = AnsweringCluster(url)
        cluster.add("restores", "b", spec={"backupName": "of"})
        cluster.add("backups", "of", spec={"storageLocation": "main"})
        cluster.add("backups", "b", spec={"storageLocation": "main"})
        cluster.add("backupstoragelocations", "main", spec={"objectStorage": storage})
        cluster.add("secrets", "trust", data={"ca.crt": bundle})
        sink = BytesIO()
        await fetch(backend(cluster), kind, "b", OPTIONS, sink)
        assert sink.getvalue() == b"x"

        # An unreadable bundle leaves the system's certificates; one without a certificate is an error.
        cluster.vanish("backupstoragelocations", "main")
        with pytest.raises(ClientError, match="certificate"):
            await fetch(backend(cluster), kind, "b", OPTIONS, BytesIO())
        none = {"caCert": base64.b64encode(b"none").decode()}
        cluster.add("backupstoragelocations", "main", spec={"objectStorage": none})
        with pytest.raises(ClientError, match="the CA bundle of the backup storage location holds no"):
            await fetch(backend(cluster), kind, "b", OPTIONS, BytesIO())


async def test_a_location_in_a_folder_is_read_directly(tmp_path: Path) -> None:
    path = tmp_path / "a log.gz"
    path.write_bytes(gzip.compress(b"line"))

    assert await fetched(path.as_uri()) == b"line"
    with pytest.raises(FileMissing, match="the location is a folder of the server's machine"):
        await fetched((tmp_path / "missing").as_uri())
    with pytest.raises(ClientError, match=r"cannot read .*: Is a directory"):
        await fetched(tmp_path.as_uri())


@pytest.mark.spec("CLI-027")
async def test_a_failed_download_leaves_no_file_and_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "b-data.tar.gz"
    path.write_bytes(b"old")
    async with serving(answer(b"", 404)) as url:
        with pytest.raises(FileMissing):
            await write_file(backend(AnsweringCluster(url)), "b", path, OPTIONS)
        assert _files(tmp_path) == {"b-data.tar.gz": b"old"}
    async with serving(answer(TARBALL)) as url:
        await write_file(backend(AnsweringCluster(url)), "b", path, OPTIONS)

    assert _files(tmp_path) == {"b-data.tar.gz": TARBALL}
    assert path.stat().st_mode & 0o777 == 0o600


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def test_a_file_of_a_kind_that_the_server_refuses_counts_as_missing() -> None:
    cluster = AnsweringCluster("")
    refusal = kube_errors.Invalid(422, reason="Invalid", message="Unsupported value")
    cluster.refuse("create", "downloadrequests", refusal)
    refusing = backend(cluster)
    for kind in DownloadTargetKind:
        with pytest.raises(kube_errors.Invalid if kind in OF_VELERO_1_6 else FileMissing):
            await fetch(refusing, kind, "b1", OPTIONS, BytesIO())
