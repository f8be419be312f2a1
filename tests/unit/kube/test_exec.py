"""Commands in pods: the channel protocol, and everything that a server or the way to it can do wrong."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hack.cluster.pki import CertificateAuthority
from pinnace.kube import exec as kube_exec
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import (
    APIStatusError,
    ConnectionFailed,
    DeadlineExceeded,
    ExecTimeout,
    Forbidden,
    InvalidName,
    InvalidResponse,
    KubeError,
    NotFound,
    ServerFault,
)
from pinnace.kube.exec import exit_code
from pinnace.kube.transport import websocket
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.credentials import (
    ClientCertificate,
    Credentials,
    Impersonation,
    StaticAuth,
    bearer,
)
from pinnace.kube.transport.tls import TLSSettings
from tests.unit.kube.scripted import (
    ONE_TRY,
    Answer,
    ScriptedServer,
    Sleeps,
    TunnelProxy,
    answer_bytes,
    answer_json,
    answer_status,
    connected,
    drop,
    running_proxy,
    scripted_server,
    status,
)

CALL = "GET /api/v1/namespaces/shop/pods/db-0/exec"
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
SUCCESS = b"\x03" + json.dumps({"metadata": {}, "status": "Success"}).encode()

Script = Callable[[web.WebSocketResponse], Awaitable[None]]


def failure(code: int) -> bytes:
    details = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
    answer = status(500, "NonZeroExitCode", f"command terminated with non-zero exit code {code}")
    return b"\x03" + json.dumps(answer | {"details": details}).encode()


def answer_exec(*frames: bytes, protocols: tuple[str, ...] = (V4,), then: Script | None = None) -> Answer:
    """A container that says this, and then does whatever `then` does."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=protocols)
        await socket.prepare(request)
        for frame in frames:
            await socket.send_bytes(frame)
        if then is not None:
            await then(socket)
        await socket.close()
        return socket

    return answer


@dataclass
class Hanging:
    """A container that never answers; `left` is set when the client has gone."""

    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, socket: web.WebSocketResponse) -> None:
        async for _ in socket:
            pass
        self.left.set()


@dataclass
class Said:
    """What came out of a command."""

    code: int
    stdout: bytes
    stderr: bytes


async def run(client: KubeClient, *command: str, timeout_seconds: float | None = 5.0) -> Said:
    out, err = bytearray(), bytearray()
    code = await client.exec(
        "shop",
        "db-0",
        command or ("sync",),
        container="db",
        stdout=out.extend,
        stderr=err.extend,
        timeout_seconds=timeout_seconds,
    )
    return Said(code, bytes(out), bytes(err))


@pytest.mark.parametrize("protocol", [V4, V5])
async def test_outputs_are_kept_apart_as_bytes(server: ScriptedServer, protocol: str) -> None:
    umlaut = "ü".encode()
    frames = (b"\x01", b"\x02", b"\x03", b"\x01a" + umlaut[:1], b"\x02no", b"\x01" + umlaut[1:], b"\x09?")
    server.on(CALL, answer_exec(*frames, SUCCESS, protocols=(protocol,)))
    async with connected(server) as client:
        assert await run(client) == Said(0, "aü".encode(), b"no")


async def test_the_request_names_container_and_words(server: ScriptedServer) -> None:
    raw: list[Any] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        raw.append(request.query.items())
        return await answer_exec(SUCCESS)(request)

    server.on(CALL, answer)
    async with connected(server) as client:
        await run(client, "sh", "-c", "echo a&b=ü > /x")
    assert list(raw[0]) == [
        ("container", "db"),
        ("stdout", "true"),
        ("stderr", "true"),
        ("command", "sh"),
        ("command", "-c"),
        ("command", "echo a&b=ü > /x"),
    ]
    assert server.seen[0].headers["Sec-WebSocket-Protocol"].replace(" ", "") == f"{V5},{V4}"


async def test_an_exit_code_is_no_exception(server: ScriptedServer) -> None:
    server.on(CALL, answer_exec(b"\x02disk full", failure(28)))
    async with connected(server) as client:
        assert await run(client) == Said(28, b"", b"disk full")


async def test_a_status_in_pieces(server: ScriptedServer) -> None:
    whole = failure(3)[1:]
    server.on(CALL, answer_exec(b"\x03" + whole[:40], b"\x01x", b"\x03" + whole[40:]))
    async with connected(server) as client:
        assert await run(client) == Said(3, b"x", b"")


async def test_a_command_that_cannot_be_started(server: ScriptedServer) -> None:
    message = 'exec: "freeze": executable file not found in $PATH'
    server.on(CALL, answer_exec(b"\x03" + json.dumps(status(500, "InternalError", message)).encode()))
    async with connected(server) as client:
        with pytest.raises(ServerFault, match="executable file not found"):
            await run(client)


@pytest.mark.parametrize(
    "odd",
    [
        {"status": "Failure", "reason": "NonZeroExitCode"},
        {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": "1"}},
        {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"message": "-1"}, 7]}},
        {"status": "Failure", "message": "no reason", "code": "500"},
        {},
    ],
)
def test_no_exit_code_is_ever_invented(odd: dict[str, Any]) -> None:
    with pytest.raises(APIStatusError):
        exit_code(odd)


async def test_a_connection_that_ends_before_the_command(server: ScriptedServer) -> None:
    server.on(CALL, answer_exec(b"\x01half"))
    async with connected(server) as client:
        with pytest.raises(ConnectionFailed, match="ended before the command did"):
            await run(client)
    assert len(server.seen) == 1, "it may have run: never a second time"


async def test_a_connection_that_is_cut(server: ScriptedServer) -> None:
    async def cut(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(V4,))
        await socket.prepare(request)
        await socket.send_bytes(b"\x01half")
        await drop(request)
        return socket

    server.on(CALL, cut)
    async with connected(server) as client:
        with pytest.raises(ConnectionFailed, match="ended before the command did"):
            await run(client)
    assert len(server.seen) == 1


@pytest.mark.parametrize("fault", ["dropped", "garbage"])
async def test_an_upgrade_whose_answer_is_lost_is_not_repeated(server: ScriptedServer, fault: str) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        if fault == "garbage":
            request.transport.write(b"nonsense\r\n\r\n")
        request.transport.close()
        return web.Response()

    server.on("GET /version", answer_json({"gitVersion": "v1"}))
    server.on(CALL, answer)
    async with connected(server) as client:
        await client.version()  # leaves an idle connection, on which the library would try again
        with pytest.raises(ConnectionFailed):
            await run(client)
    assert server.calls().count(CALL) == 1


async def test_a_busy_server_and_one_out_of_reach_are_asked_again(server: ScriptedServer) -> None:
    server.on(CALL, answer_status(429, "TooManyRequests", headers={"Retry-After": "1"}), answer_exec(SUCCESS))
    sleeps = Sleeps()
    async with connected(server, clock=sleeps) as client:
        assert (await run(client)).code == 0
    assert len(sleeps.delays) == 1
    config = ClusterConfig(server="http://127.0.0.1:1")
    async with connected(server, clock=sleeps, config=config) as client:
        with pytest.raises(ConnectionFailed, match="cannot reach"):
            await run(client)
    assert len(sleeps.delays) == 1 + 4


@pytest.mark.parametrize(
    ("code", "reason", "error"), [(403, "Forbidden", Forbidden), (404, "NotFound", NotFound)]
)
async def test_a_refusal_comes_in_the_servers_words(
    server: ScriptedServer, code: int, reason: str, error: type[KubeError]
) -> None:
    server.on(CALL, answer_status(code, reason, 'pods "db-0": these very words'))
    async with connected(server) as client:
        with pytest.raises(error, match="these very words"):
            await run(client)


@pytest.mark.parametrize(
    "answer",
    [
        answer_status(400, "BadRequest", "Upgrade request required"),
        answer_bytes(b"<html>Upgrade Required</html>", code=426),
        answer_exec(SUCCESS, protocols=()),
        answer_exec(SUCCESS, protocols=("channel.k8s.io",)),
    ],
    ids=["header-lost", "426", "no-protocol", "old-protocol"],
)
async def test_a_proxy_without_websockets_is_named_in_the_error(
    server: ScriptedServer, answer: Answer
) -> None:
    server.on(CALL, answer)
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match=r"websocket|exec protocols.* proxy"):
            await run(client)


async def test_an_ordinary_answer_is_no_websocket(server: ScriptedServer) -> None:
    server.on(CALL, answer_json({}))
    async with connected(server) as client:
        with pytest.raises(KubeError, match="HTTP status 200"):
            await run(client)


async def test_a_redirect_is_not_followed(server: ScriptedServer) -> None:
    server.on(CALL, answer_bytes(b"", code=307, headers={"Location": "/elsewhere"}))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match="307"):
            await run(client)
    assert server.calls() == [CALL]


async def test_a_page_instead_of_a_websocket_is_an_error_that_names_the_suspects(
    server: ScriptedServer,
) -> None:
    server.on(CALL, answer_bytes(b"<html>Sign in</html>"))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match=r"HTTP status 200\. A proxy or a login page"):
            await run(client)
    assert server.calls() == [CALL]


async def test_the_deadline_closes_the_connection(server: ScriptedServer) -> None:
    hanging = Hanging()
    server.on(CALL, answer_exec(b"\x01half", then=hanging))
    out = bytearray()
    async with connected(server) as client:
        with pytest.raises(ExecTimeout):
            await client.exec(
                "shop",
                "db-0",
                ["sync"],
                container="db",
                stdout=out.extend,
                stderr=out.extend,
                timeout_seconds=1,  # in which a busy machine surely hears the half
            )
        await asyncio.wait_for(hanging.left.wait(), 30)
    assert out == b"half"


async def test_cancellation_closes_the_connection(server: ScriptedServer) -> None:
    hanging = Hanging()
    server.on(CALL, answer_exec(b"\x01half", then=hanging))
    heard = asyncio.Event()
    async with connected(server) as client:
        running = asyncio.create_task(
            client.exec(
                "shop",
                "db-0",
                ["sync"],
                container="db",
                stdout=lambda _: heard.set(),
                stderr=lambda _: None,
                timeout_seconds=None,
            )
        )
        await heard.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(hanging.left.wait(), 30)


async def test_the_connection_is_dropped_if_the_server_ignores_its_closing(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_exec, "CLOSE_SECONDS", 0.05)

    async def flood(socket: web.WebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError):
            while not server.stopping.is_set():
                await socket.send_bytes(b"\x01" + b"x" * 32768)

    server.on(CALL, answer_exec(then=flood))
    async with connected(server) as client:
        with pytest.raises(ExecTimeout):
            await run(client, timeout_seconds=0.2)


async def test_a_slow_closing_does_not_count_as_time_of_the_command(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_exec, "CLOSE_SECONDS", 1.2)

    async def linger(socket: web.WebSocketResponse) -> None:
        await server.stopping.wait()

    server.on(CALL, answer_exec(SUCCESS, then=linger))
    async with connected(server) as client:
        assert (await run(client, timeout_seconds=1)).code == 0


async def test_a_handshake_that_hangs(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_exec, "HANDSHAKE_SECONDS", 0.05)
    server.on(CALL, server.stall())
    async with connected(server) as client:
        with pytest.raises(DeadlineExceeded) as caught:
            await run(client, timeout_seconds=None)
    assert not isinstance(caught.value, ExecTimeout)


async def test_a_peer_that_vanishes_is_an_error(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "HEARTBEAT_SECONDS", 0.1)

    async def freeze(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(V4,), autoping=False)
        await socket.prepare(request)
        await server.stopping.wait()
        return socket

    server.on(CALL, freeze)
    async with connected(server) as client:
        with pytest.raises(ConnectionFailed):
            await run(client, timeout_seconds=None)


async def test_messages_that_are_none_of_the_protocol(server: ScriptedServer) -> None:
    async def talk(socket: web.WebSocketResponse) -> None:
        await socket.send_str("hello")

    huge = b"\x03" + b'{"a": "' + b"x" * 70_000
    for answer, text in (
        (answer_exec(then=talk), "not of the exec protocol"),
        (answer_exec(b"\x03[]"), "is not an object"),
        (answer_exec(huge), "status is larger"),
        (answer_exec(b"\x01" + b"x" * (2**20 + 1)), "broke"),
    ):
        server.on(CALL, answer)
        async with connected(server) as client:
            with pytest.raises(KubeError, match=text):
                await run(client)


async def test_much_output_goes_through_unkept(server: ScriptedServer) -> None:
    piece = b"\x01" + b"y" * 32767
    server.on(CALL, answer_exec(*[piece] * 500, SUCCESS))
    seen = 0

    def count(data: bytes) -> None:
        nonlocal seen
        seen += len(data)

    async with connected(server) as client:
        code = await client.exec(
            "shop", "db-0", ["yes"], container="db", stdout=count, stderr=count, timeout_seconds=20
        )
    assert (code, seen) == (0, 500 * 32767)


async def test_names_cannot_lead_elsewhere(server: ScriptedServer) -> None:
    async with connected(server) as client:
        with pytest.raises(InvalidName):
            await client.exec(
                "shop",
                "../secrets",
                ["x"],
                container="c",
                stdout=lambda _: None,
                stderr=lambda _: None,
                timeout_seconds=1,
            )


@dataclass
class RenewedAuth:
    """A token that the server rejects once."""

    tokens: list[str]

    async def credentials(self) -> Credentials:
        return bearer(self.tokens[0])

    async def rejected(self, used: Credentials) -> bool:
        self.tokens.pop(0)
        return True


async def test_a_rejected_token_is_renewed_and_impersonation_kept(server: ScriptedServer) -> None:
    server.on(CALL, answer_status(401, "Unauthorized"), answer_exec(SUCCESS))
    config = ClusterConfig(
        server=server.url,
        auth=RenewedAuth(["old", "new"]),
        impersonation=Impersonation(user="jane", groups=("dev",)),
    )
    async with connected(server, config=config) as client:
        assert (await run(client)).code == 0
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer old", "Bearer new"]
    assert [seen.headers["Impersonate-User"] for seen in server.seen] == ["jane", "jane"]


async def test_a_client_certificate_and_a_tunnel(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "pki", name="test")
    pair = authority.issue_server("server", addresses=("127.0.0.1",), names=())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(pair.certificate, pair.key)
    context.verify_mode = ssl.CERT_REQUIRED
    ours = authority.issue_client("jane", user="jane")
    certificate = ClientCertificate(ours.certificate.read_bytes(), ours.key.read_bytes())
    tls = TLSSettings(ca=authority.certificate.read_bytes(), certificate=certificate)
    tunnel = TunnelProxy()
    async with scripted_server(context) as server, running_proxy(tunnel) as proxy:
        server.on(CALL, answer_exec(b"\x01hi", SUCCESS))
        config = ClusterConfig(server=server.url, tls=tls, proxy=proxy, auth=StaticAuth(bearer("t0ken")))
        async with connected(server, config=config, retry=ONE_TRY) as client:
            assert await run(client) == Said(0, b"hi", b"")
        assert server.seen[0].peer_certificate is not None
        assert server.seen[0].peer_certificate["subject"][0][0][1] == "jane"
    (head,) = tunnel.heads
    assert head.startswith(b"CONNECT ")
    assert b"t0ken" not in head
