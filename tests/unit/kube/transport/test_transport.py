"""The connection itself: TLS both ways, impersonation, proxies, and texts without secrets."""

import asyncio
import contextlib
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest

from hack.cluster.pki import CertificateAuthority
from pinnace.kube.errors import ConfigError, ConnectionFailed, KubeError, NotSent
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.credentials import (
    ClientCertificate,
    Credentials,
    Impersonation,
    StaticAuth,
    basic,
    bearer,
)
from pinnace.kube.transport.tls import TLSSettings, build_ssl_context
from tests.unit.kube.scripted import (
    ScriptedServer,
    Sleeps,
    TunnelProxy,
    answer_json,
    connected,
    running_proxy,
    scripted_server,
)

VERSION = {"gitVersion": "v1.33.4"}


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "pki", name="test")


@pytest.fixture
async def secure(authority: CertificateAuthority) -> AsyncIterator[ScriptedServer]:
    """A server by https that asks for client certificates; its certificate names 127.0.0.1."""
    async with _https(authority, addresses=("127.0.0.1",)) as running:
        yield running


@contextlib.asynccontextmanager
async def _https(
    authority: CertificateAuthority, *, addresses: tuple[str, ...] = (), names: tuple[str, ...] = ()
) -> AsyncIterator[ScriptedServer]:
    pair = authority.issue_server("server", addresses=addresses, names=names)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(pair.certificate, pair.key)
    context.verify_mode = ssl.CERT_OPTIONAL
    async with scripted_server(context) as running:
        running.on("GET /version", answer_json(VERSION))
        yield running


def _client_certificate(authority: CertificateAuthority, user: str) -> ClientCertificate:
    pair = authority.issue_client(user, user=user)
    return ClientCertificate(pair.certificate.read_bytes(), pair.key.read_bytes())


def _user(server: ScriptedServer) -> str:
    certificate = server.seen[-1].peer_certificate
    return certificate["subject"][0][0][1] if certificate else ""


async def test_a_trusted_server_and_our_certificate(
    secure: ScriptedServer, authority: CertificateAuthority
) -> None:
    tls = TLSSettings(
        ca=authority.certificate.read_bytes(), certificate=_client_certificate(authority, "jane")
    )
    async with connected(secure, config=ClusterConfig(server=secure.url, tls=tls)) as client:
        assert (await client.version()).git_version == "v1.33.4"
    assert _user(secure) == "jane"


async def test_an_untrusted_server_gets_nothing_and_no_second_try(
    secure: ScriptedServer, tmp_path: Path
) -> None:
    other = CertificateAuthority(tmp_path / "other", name="other")
    sleeps = Sleeps()
    config = ClusterConfig(
        server=secure.url,
        tls=TLSSettings(ca=other.certificate.read_bytes()),
        auth=StaticAuth(bearer("s3cret")),
    )
    async with connected(secure, config=config, clock=sleeps) as client:
        with pytest.raises(ConnectionFailed, match=f"the certificate of {secure.url} is not trusted: "):
            await client.version()
    assert (secure.seen, sleeps.delays) == ([], [])


async def test_insecure_only_when_asked(secure: ScriptedServer) -> None:
    async with connected(secure, config=ClusterConfig(server=secure.url)) as client:
        with pytest.raises(ConnectionFailed):
            await client.version()
    config = ClusterConfig(server=secure.url, tls=TLSSettings(insecure=True))
    async with connected(secure, config=config) as client:
        assert (await client.version()).git_version == "v1.33.4"


async def test_tls_server_name(authority: CertificateAuthority) -> None:
    ca = authority.certificate.read_bytes()
    async with _https(authority, names=("api.internal",)) as server:
        async with connected(
            server, config=ClusterConfig(server=server.url, tls=TLSSettings(ca=ca))
        ) as client:
            with pytest.raises(ConnectionFailed, match="not trusted"):
                await client.version()
        config = ClusterConfig(server=server.url, tls=TLSSettings(ca=ca, server_name="api.internal"))
        async with connected(server, config=config) as client:
            assert (await client.version()).git_version == "v1.33.4"


@dataclass
class CertificateAuth:
    """Gives out whatever certificate the test sets, as an exec plugin would."""

    certificate: ClientCertificate = field(repr=False)

    async def credentials(self) -> Credentials:
        return Credentials("", self.certificate)

    async def rejected(self, used: Credentials) -> bool:
        return False


async def test_a_new_certificate_takes_a_new_connection(
    secure: ScriptedServer, authority: CertificateAuthority
) -> None:
    auth = CertificateAuth(_client_certificate(authority, "first"))
    tls = TLSSettings(
        ca=authority.certificate.read_bytes(), certificate=_client_certificate(authority, "configured")
    )
    async with connected(secure, config=ClusterConfig(server=secure.url, tls=tls, auth=auth)) as client:
        await client.version()
        assert _user(secure) == "first"
        auth.certificate = _client_certificate(authority, "second")
        await client.version()
        assert _user(secure) == "second"


def test_a_process_killed_while_a_key_is_loaded_leaves_none_behind(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    pair = authority.issue_client("jane", user="jane")
    program = """
import os, signal, ssl, sys
from pathlib import Path
from urllib.parse import quote
from pinnace.kube.transport.credentials import ClientCertificate
from pinnace.kube.transport.tls import TLSSettings, build_ssl_context

def killed(context, certfile, keyfile, password):
    assert Path(keyfile).read_bytes() == Path(sys.argv[2]).read_bytes()
    os.kill(os.getpid(), signal.SIGKILL)

ssl.SSLContext.load_cert_chain = killed
certificate, key = (Path(path).read_bytes() for path in sys.argv[1:])
build_ssl_context(TLSSettings(certificate=ClientCertificate(certificate, key)))
"""
    folder = tmp_path / "temporary"
    folder.mkdir()
    words = [sys.executable, "-c", program, str(pair.certificate), str(pair.key)]
    ended = subprocess.run(words, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("usable", [True, False])
def test_no_key_stays_on_disk(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usable: bool
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    certificate = _client_certificate(authority, "jane")
    if usable:
        build_ssl_context(TLSSettings(certificate=certificate))
    else:
        broken = ClientCertificate(certificate.certificate, b"s3cret")
        with pytest.raises(ConfigError, match="k: client-certificate and client-key: ") as caught:
            build_ssl_context(TLSSettings(origin="k"), broken)
        assert "s3cret" not in str(caught.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "ca", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_an_unusable_authority_is_named(ca: bytes) -> None:
    with pytest.raises(ConfigError, match="k: certificate-authority holds no"):
        build_ssl_context(TLSSettings(ca=ca, origin="k"))


def test_an_authority_may_carry_comments(authority: CertificateAuthority) -> None:
    ca = "Aussteller: Prüfstelle\n".encode() + authority.certificate.read_bytes()
    assert len(build_ssl_context(TLSSettings(ca=ca)).get_ca_certs()) == 1


async def test_impersonation_headers(server: ScriptedServer) -> None:
    server.on("GET /version", answer_json(VERSION))
    impersonation = Impersonation(
        user="jane",
        uid="7",
        groups=("dev", "ops"),
        extra={"Acme.com/Project": ("a", "b"), "scopes": ("view",)},
    )
    config = ClusterConfig(server=server.url, auth=StaticAuth(bearer("t")), impersonation=impersonation)
    async with connected(server, config=config) as client:
        await client.version()
    headers = server.seen[0].headers
    assert headers["Authorization"] == "Bearer t"
    assert headers.getall("Impersonate-User") == ["jane"]
    assert headers.getall("Impersonate-Uid") == ["7"]
    assert headers.getall("Impersonate-Group") == ["dev", "ops"]
    assert headers.getall("Impersonate-Extra-acme.com%2fproject") == ["a", "b"]
    assert headers.getall("Impersonate-Extra-scopes") == ["view"]


async def test_a_proxy_is_a_tunnel_only(secure: ScriptedServer, authority: CertificateAuthority) -> None:
    tls = TLSSettings(ca=authority.certificate.read_bytes())
    proxy = TunnelProxy()
    async with running_proxy(proxy) as url:
        config = ClusterConfig(server=secure.url, tls=tls, proxy=url, auth=StaticAuth(bearer("t0ken")))
        async with connected(secure, config=config) as client:
            assert (await client.version()).git_version == "v1.33.4"
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {secure.url.removeprefix('https://')} ".encode())
    assert basic("jane", "s3cret").authorization.encode() in head
    assert b"t0ken" not in head
    assert secure.seen[0].headers["Authorization"] == "Bearer t0ken"


@pytest.mark.parametrize("running", [True, False])
async def test_a_proxy_that_fails_keeps_its_password(secure: ScriptedServer, running: bool) -> None:
    async with running_proxy(TunnelProxy(refuse=True)) as url:
        proxy = url if running else "http://jane:s3cret@127.0.0.1:1"
        config = ClusterConfig(server=secure.url, proxy=proxy, auth=StaticAuth(bearer("t0ken")))
        async with connected(secure, config=config) as client:
            with pytest.raises(ConnectionFailed, match="proxy") as caught:
                await client.version()
    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in shown
    assert "t0ken" not in shown


async def test_no_error_shows_a_token(server: ScriptedServer) -> None:
    server.on("GET /version", server.stall())
    auth = StaticAuth(bearer("t0ken"))
    shown = []
    for url in (server.url, "http://127.0.0.1:1"):
        config = ClusterConfig(server=url, auth=auth)
        async with connected(server, config=config, timeout_seconds=0.05) as client:
            with pytest.raises(KubeError) as caught:
                await client.version()
            shown += ["".join(traceback.format_exception(caught.value)), repr(caught.value), repr(config)]
    assert "t0ken" not in "".join(shown)


async def test_what_still_runs_when_the_client_is_closed_ends(server: ScriptedServer) -> None:
    server.on("GET /version", server.stall())
    async with connected(server) as client:
        running = asyncio.create_task(client.version())
        await server.waiting.wait()
    with pytest.raises((KubeError, RuntimeError)):
        await running


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
async def test_a_connection_that_breaks_in_the_handshake_is_tried_again(
    authority: CertificateAuthority, is_reset: bool
) -> None:
    """As of a server that is killed or just starts: the request was not sent, and may be later."""
    accepted = 0

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.read(1)
        if is_reset:
            writer.transport.abort()
        writer.close()

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with listener:
        url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        config = ClusterConfig(server=url, tls=TLSSettings(ca=authority.certificate.read_bytes()))
        async with connected(ScriptedServer(), config=config) as client:
            with pytest.raises(NotSent):
                await client.request("POST", "/api/v1/namespaces", body=b"{}")
    assert accepted == 5


@pytest.mark.parametrize("user", ["jürgen", "李", "a b"])
async def test_users_and_tokens_may_be_of_any_script(server: ScriptedServer, user: str) -> None:
    server.on("GET /version", answer_json({"gitVersion": "v1.33.4"}))
    config = ClusterConfig(
        server=server.url,
        auth=StaticAuth(bearer(user)),
        impersonation=Impersonation(user=user, groups=(user,), extra={user: (user,)}),
    )
    async with connected(server, config=config) as client:
        await client.version()
    headers = server.seen[0].headers
    assert headers["Impersonate-User"] == headers["Impersonate-Group"] == user
    assert headers["Authorization"] == f"Bearer {user}"
    assert headers[f"Impersonate-Extra-{quote(user)}"] == user


async def test_an_impersonated_user_that_is_no_text_is_an_error(server: ScriptedServer) -> None:
    config = ClusterConfig(server=server.url, impersonation=Impersonation(user="a\ud800"))
    async with connected(server, config=config) as client:
        with pytest.raises(ConfigError, match="Impersonate-User is not valid text"):
            await client.version()
