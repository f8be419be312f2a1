"""Sinks against good and bad servers on loopback."""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pinnace.messages.errors import SinkError
from pinnace.messages.once import tell_once
from pinnace.messages.problem import (
    Cause,
    Notification,
    Problem,
    RunStage,
    Signal,
    Topic,
    of_problem,
    of_stage,
)
from pinnace.messages.settings import (
    AlertmanagerSettings,
    AppriseSettings,
    PingSettings,
    SinkSettings,
    SmtpSettings,
    Target,
    WebhookSettings,
)
from pinnace.messages.sinks.opening import open_sink
from pinnace.store_access import tracing
from pinnace.store_access.addresses import Addresses, parse_allowed

HOSTILE = "nightly\r\nBcc: victim@example.org\r\n\r\n.\r\nMAIL FROM:<x@y.z>"
TOPIC = Topic(kind="Schedule", namespace="velero", name=HOSTILE, schedule=HOSTILE)
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def problem(text: str = "it failed", *, passes: bool = True) -> Problem:
    return Problem(topic=TOPIC, cause=Cause.FAILURE, occasion="n-1", since=1000.0, text=text, passes=passes)


def message(signal: Signal = Signal.PROBLEM, text: str = "it failed") -> Notification:
    return of_problem(problem(text), signal, "prod", 2000.0)


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class Web:
    """Answers each request with the same bytes and keeps what it got."""

    def __init__(self, answer: bytes = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n") -> None:
        self.answer = answer
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        self.heads.append(head)
        self.bodies.append(await reader.readexactly(length))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


async def test_a_webhook_gets_a_cloud_event() -> None:
    web = Web()
    async with serving(web) as port:
        settings = WebhookSettings(
            url=f"http://127.0.0.1:{port}/hook?k=v", headers={"Authorization": "Bearer x"}
        )
        await open_sink(settings).send([message()])
    (body,), (head,) = web.bodies, web.heads
    event = json.loads(body)
    assert head.startswith(b"POST /hook?k=v HTTP/1.1\r\n")
    assert b"Content-Type: application/cloudevents+json\r\n" in head
    assert b"Authorization: Bearer x\r\n" in head
    assert {name: event[name] for name in ("specversion", "source", "type", "time", "datacontenttype")} == {
        "specversion": "1.0",
        "source": "/pinnace/prod",
        "type": "io.pinnace.failure.problem",
        "time": "1970-01-01T00:33:20Z",
        "datacontenttype": "application/json",
    }
    assert event["id"] == message().id
    assert event["data"]["cluster"] == "prod"


async def test_alerts_have_the_same_labels_when_they_begin_and_end() -> None:
    web = Web()
    async with serving(web) as port:
        sink = open_sink(
            AlertmanagerSettings(url=f"http://127.0.0.1:{port}", labels={"team": "x", "name": "y"})
        )
        await sink.send([message()])
        await sink.send([message(Signal.RECOVERY)])
        await sink.send([of_problem(problem(passes=False), Signal.PROBLEM, "prod", 2000.0)])
    (first,), (last,), (once,) = (json.loads(body) for body in web.bodies)
    assert web.heads[0].startswith(b"POST /api/v2/alerts ")
    assert first["labels"] == last["labels"]
    assert first["labels"]["alertname"] == "PinnaceFailure"
    assert first["labels"]["name"] != "y"
    assert first["endsAt"] > "1970-01-01T00:33:20Z" == last["endsAt"]
    assert once["endsAt"].startswith("1970-01-02")


async def test_a_ping_names_schedule_and_stage_in_its_path() -> None:
    web = Web()
    topic = Topic(kind="Schedule", namespace="velero", name="a/../b", schedule="a/../b")
    async with serving(web) as port:
        sink = open_sink(PingSettings(url=f"http://127.0.0.1:{port}/key/{{schedule}}?create=1"))
        for signal in (Signal.START, Signal.OK, Signal.FAIL):
            stage = RunStage(topic=topic, run="r", signal=signal, since=1.0)
            await sink.send([of_stage(stage, "prod", 2.0)])
    assert [head.split(b" ")[1] for head in web.heads] == [
        b"/key/a%2F..%2Fb/start?create=1",
        b"/key/a%2F..%2Fb?create=1",
        b"/key/a%2F..%2Fb/fail?create=1",
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n", "redirection"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "status 500"),
        (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "status 403"),
        (b"SSH-2.0-nonsense\r\n\r\n", "not HTTP"),
        (b"", "cannot reach"),
    ],
)
async def test_an_answer_of_no_success_is_one_error_without_the_path(answer: bytes, said: str) -> None:
    web = Web(answer)
    async with serving(web) as port:
        with pytest.raises(SinkError, match=said) as caught:
            await open_sink(WebhookSettings(url=f"http://u:pw@127.0.0.1:{port}/s3cr3t")).send([message()])
    assert len(web.heads) == 1  # nothing was followed
    assert "s3cr3t" not in str(caught.value)
    assert "pw@" not in str(caught.value)


async def test_an_endless_answer_is_not_read() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n")
        try:
            while True:
                writer.write(bytes(1 << 16))
                await writer.drain()
                sent += 1 << 16
        except ConnectionError:
            writer.close()

    async with serving(flood) as port:
        began = time.monotonic()
        await open_sink(WebhookSettings(url=f"http://127.0.0.1:{port}/")).send([message()])
        assert time.monotonic() - began < 5
    assert sent < 64 << 20


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://2130706433:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://169.254.169.254/latest/meta-data",
        "http://[fd00:ec2::254]/",
    ],
)
async def test_a_tenants_sink_reaches_no_internal_address_unless_it_is_allowed(url: str) -> None:
    web = Web()
    async with serving(web) as port:
        target = WebhookSettings(url=url.format(port=port))
        with pytest.raises(SinkError, match="internal network"):
            await open_sink(target, Addresses()).send([message()])
        assert web.heads == []
        if url.startswith("http://127"):
            await open_sink(target, parse_allowed(["127.0.0.0/8"])).send([message()])
            assert len(web.heads) == 1


# --- SMTP -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder: Path = tmp_path_factory.mktemp("certificate")
    pem = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "both.pem").write_bytes(pem + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return pem.decode(), context


class MailServer:
    """A server that takes mail, with STARTTLS if it has a context; `injected` is sent before TLS begins."""

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        *,
        injected: bytes = b"",
        refuses: str = "",
        reason: str = "550 no",
    ) -> None:
        self.tls, self.injected, self.refuses, self.reason = tls, injected, refuses, reason
        self.lines: list[str] = []
        self.mail = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220-hello\r\n220 there\r\n")
        secure = False
        while line := await reader.readline():
            words = line.decode().strip()
            self.lines.append(words)
            verb = words.split(" ", 1)[0]
            if verb == self.refuses:
                writer.write(f"{self.reason}\r\n".encode())
            elif verb == "EHLO":
                offers = b"250-localhost\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n"
                writer.write(b"250 localhost\r\n" if secure or self.tls is None else offers)
            elif verb == "STARTTLS" and self.tls is not None:
                writer.write(b"220 go\r\n" + self.injected)
                await writer.drain()
                await writer.start_tls(self.tls)
                secure = True
            elif verb == "AUTH":
                writer.write(b"235 ok\r\n")
            elif verb == "DATA":
                writer.write(b"354 go\r\n")
                self.mail = await reader.readuntil(b"\r\n.\r\n")
                writer.write(b"250 ok\r\n")
            elif verb == "QUIT":
                break
            else:
                writer.write(b"250 ok\r\n")
        writer.close()


def mail_settings(port: int, *, ca: str = "", tls: str = "starttls", host: str = "localhost") -> SmtpSettings:
    return SmtpSettings(
        host=host, port=port, sender="a@example.org", to=("b@example.org", "c@example.org"),
        tls=tls, username="u" if tls != "none" else "", password="p", ca_cert=ca,
    )  # fmt: skip


async def test_mail_is_sent_over_tls_and_hostile_names_stay_text(
    certificate: tuple[str, ssl.SSLContext],
) -> None:
    ca, context = certificate
    server = MailServer(context)
    async with serving(server) as port:
        await open_sink(mail_settings(port, ca=ca)).send(
            [message(text=".\r\n.\r\nRSET"), message(Signal.RECOVERY)]
        )
    assert [line.split(" ")[0] for line in server.lines[:8]] == [
        "EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "RCPT", "DATA",
    ]  # fmt: skip
    head, _, body = server.mail.partition(b"\r\n\r\n")
    names = [line.split(b":")[0] for line in head.split(b"\r\n") if line[:1] not in (b" ", b"\t")]
    assert b"Bcc" not in names
    assert len(names) == len(set(names))
    assert b"\r\n.\r\n" not in body[:-5]
    assert b"and 1 more" in head.replace(b"\r\n ", b" ")


async def test_an_answer_in_plain_text_behind_starttls_does_not_count(
    certificate: tuple[str, ssl.SSLContext],
) -> None:
    ca, context = certificate
    server = MailServer(context, injected=b"250 injected\r\n")
    async with serving(server) as port:
        await open_sink(mail_settings(port, ca=ca)).send([message()])
    assert server.mail  # each answer was that to its command


@pytest.mark.parametrize(
    ("server", "tls", "said"),
    [
        (MailServer(), "starttls", "offers no STARTTLS"),
        (MailServer(refuses="RCPT"), "none", "refused RCPT with code 550"),
        (MailServer(refuses="EHLO"), "none", "refused EHLO"),
    ],
)
async def test_a_refusal_is_one_error(server: MailServer, tls: str, said: str) -> None:
    async with serving(server) as port:
        with pytest.raises(SinkError, match=said):
            await open_sink(mail_settings(port, tls=tls)).send([message()])
    assert not any(line.startswith("AUTH") for line in server.lines)


async def test_a_certificate_of_somebody_else_is_refused_before_the_password(
    certificate: tuple[str, ssl.SSLContext],
) -> None:
    server = MailServer(certificate[1])
    async with serving(server) as port:
        with pytest.raises(SinkError, match="TLS failed"):
            await open_sink(mail_settings(port)).send([message()])
    assert not any(line.startswith("AUTH") for line in server.lines)


@pytest.mark.parametrize("greeting", [b"x" * 100_000, b"220-more\r\n" * 200, b"HTTP/1.1 400 Bad\r\n", b""])
async def test_nonsense_in_place_of_a_greeting_is_one_error(greeting: bytes) -> None:
    async def nonsense(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    async with serving(nonsense) as port:
        with pytest.raises(SinkError, match="mail server"):
            await open_sink(mail_settings(port, tls="none")).send([message()])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254"])
async def test_a_tenants_mail_server_is_public(host: str) -> None:
    with pytest.raises(SinkError, match="internal network"):
        await open_sink(mail_settings(25, host=host), Addresses()).send([message()])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules that Apprise imports
async def test_apprise_sends_what_it_can_and_refuses_what_it_cannot_read() -> None:
    web = Web(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    async with serving(web) as port:
        await open_sink(AppriseSettings(url=f"json://127.0.0.1:{port}/x")).send([message()])
        assert "failure of Schedule" in json.loads(web.bodies[0])["title"]
        with pytest.raises(SinkError, match="Apprise could not deliver"):
            await open_sink(AppriseSettings(url="nonsense")).send([message()])


def test_texts_have_no_secrets_and_no_control_characters() -> None:
    found = problem("login with password=hunter2 at https://u:p4ss@host/x?sig=abc\x1b[31m\r\nX: y")
    assert "hunter2" not in found.text
    assert "p4ss" not in found.text
    assert "sig=abc" not in found.text
    assert found.text.isprintable()
    assert message().title.isprintable()


# --- Hangs, refusals and secrets, for each service --------------------------------------------------------

SECRET = "s3cr3t"


def http_targets(address: str, ca: str = "") -> list[WebhookSettings | AlertmanagerSettings | PingSettings]:
    """Each service over HTTP with a secret in whatever can have one."""
    as_user = address.replace("://", f"://{SECRET}:{SECRET}@")
    headers = {"Authorization": f"Bearer {SECRET}"}
    return [
        WebhookSettings(url=f"{as_user}/{SECRET}?k={SECRET}", ca_cert=ca),
        AlertmanagerSettings(url=f"{address}/{SECRET}", headers=headers, ca_cert=ca),
        PingSettings(url=f"{as_user}/{SECRET}/{{schedule}}?k={SECRET}", ca_cert=ca),
    ]


@pytest.mark.parametrize("service", [0, 1, 2], ids=["webhook", "alertmanager", "ping"])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://h/s3cr3t\r\nContent-Length: 0\r\n\r\n", "redirection"),
        (b"HTTP/1.1 500 s3cr3t\r\nContent-Length: 6\r\n\r\ns3cr3t", "status 500"),
        (b"HTTP/1.1 407 s3cr3t\r\nContent-Length: 0\r\n\r\n", "status 407"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"s3cr3t" * 20_000 + b"\r\n\r\n", "not HTTP"),
        (b"s3cr3t\r\n\r\n", "not HTTP"),
        (b"", "cannot reach"),
    ],
    ids=["redirected", "refused", "proxy", "huge", "nonsense", "cut"],
)
async def test_no_refusal_of_a_service_tells_a_secret(service: int, answer: bytes, said: str) -> None:
    web = Web(answer)
    async with serving(web) as port:
        with pytest.raises(SinkError, match=said) as caught:
            await open_sink(http_targets(f"http://127.0.0.1:{port}")[service]).send([message()])
    assert SECRET not in str(caught.value)
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert len(web.heads) == 1


@pytest.mark.parametrize("service", [0, 1, 2], ids=["webhook", "alertmanager", "ping"])
async def test_no_failure_before_an_answer_tells_a_secret(
    service: int, certificate: tuple[str, ssl.SSLContext], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    texts = []
    web = Web()

    async def no_tls(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 400 {SECRET}\r\n\r\n".encode())
        writer.close()

    async with serving(no_tls) as plain, serving(web, tls=certificate[1]) as secure:
        for address, ca in (
            (f"https://localhost:{secure}", ""),  # of an unknown authority
            (f"https://127.0.0.1:{secure}", certificate[0]),  # of another name
            (f"https://127.0.0.1:{plain}", ""),
            ("https://127.0.0.1:1", ""),  # nobody listens
            (f"https://localhost:{secure}", "no PEM"),
        ):
            with pytest.raises(SinkError) as caught:
                await open_sink(http_targets(address, ca)[service]).send([message()])
            texts.append(str(caught.value))
    assert web.heads == [], "nothing was sent"
    assert not [text for text in texts if SECRET in text], texts
    assert SECRET not in caplog.text


async def test_a_traced_request_of_a_sink_shows_no_path(capfd: pytest.CaptureFixture[str]) -> None:
    """The path of a webhook or a ping is its key."""
    async with serving(Web()) as port:
        with tracing.traced(tracing.ANSWERS, logging.StreamHandler()):
            for target in http_targets(f"http://127.0.0.1:{port}"):
                await open_sink(target).send([message()])
    printed = capfd.readouterr().err
    assert printed.count(f"POST http://127.0.0.1:{port} 204 No Content in") == 3
    assert SECRET not in printed


async def test_no_refusal_of_a_mail_server_tells_a_secret(certificate: tuple[str, ssl.SSLContext]) -> None:
    ca, context = certificate
    server = MailServer(context, refuses="AUTH", reason=f"535 no {SECRET}")
    async with serving(server) as port:
        settings = msgspec.structs.replace(mail_settings(port, ca=ca), username=SECRET, password=SECRET)
        with pytest.raises(SinkError, match="refused AUTH with code 535") as caught:
            await open_sink(settings).send([message()])
    assert SECRET not in str(caught.value)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await reader.read()
    writer.close()


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with a byte now and then, for ever, in the head of an answer."""
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    await dripping_mail(reader, writer)


async def dripping_mail(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The same in a greeting."""
    while True:
        writer.write(b"2")
        await writer.drain()
        await asyncio.sleep(0.01)


async def silent_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Agree to TLS, and never begin it."""
    writer.write(b"220 hello\r\n")
    await reader.readline()
    writer.write(b"250-localhost\r\n250 STARTTLS\r\n")
    await reader.readline()
    writer.write(b"220 go\r\n")
    await reader.read()
    writer.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules that Apprise imports
@pytest.mark.parametrize(
    ("server", "target"),
    [
        *((server, service) for server in (silent, dripping) for service in range(3)),
        (silent, "none"),
        (silent, "implicit"),
        (dripping_mail, "none"),
        (silent_tls, "starttls"),
        (silent, "apprise"),
    ],
    ids=str,
)
async def test_a_service_that_hangs_costs_one_attempt_and_no_connection(
    server: Answer, target: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinnace.messages.once.ATTEMPT_SECONDS", 0.3)
    ended = asyncio.Event()

    async def watched(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await server(reader, writer)
        except ConnectionError:
            writer.close()
        ended.set()

    async with serving(watched) as port:
        if isinstance(target, int):
            settings: Target = http_targets(f"http://127.0.0.1:{port}")[target]
        elif target == "apprise":
            settings = AppriseSettings(url=f"json://127.0.0.1:{port}/{SECRET}?rto=1&cto=1")
        else:
            settings = mail_settings(port, tls=target)
        began = time.monotonic()
        told = await tell_once([SinkSettings(name="a", target=settings)], message(), tries=1)
        assert told == {"a": "no answer within 0.3 seconds"}
        assert time.monotonic() - began < 10
        async with asyncio.timeout(30):
            await ended.wait()
