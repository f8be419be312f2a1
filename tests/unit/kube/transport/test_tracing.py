"""What a trace of requests prints, and what it never prints."""

import logging

import aiohttp
import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, NotFound
from pinnace.kube.resources import SECRETS
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.credentials import StaticAuth, bearer
from pinnace.store_access import tracing
from pinnace.store_access.requests import RequestPolicy, new_session, send, tls_context
from tests.unit.kube.scripted import ONE_TRY, ScriptedServer, answer_json, answer_status

PATH = "/api/v1/namespaces/demo/secrets"
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "a", "namespace": "demo"},
    "data": {"key": "aHVudGVyMg=="},
}


CREATED = {**SECRET, "metadata": {"name": "a", "namespace": "demo", "uid": "u"}}


class Lines(logging.Handler):
    """The printed lines."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"


async def traced(server: ScriptedServer, verbosity: int) -> str:
    """What is printed of three requests."""
    server.on(f"GET {PATH}/a", answer_json(SECRET))
    server.on(f"POST {PATH}", answer_json(CREATED, code=201))
    server.on(f"GET {PATH}/b", answer_status(404, "NotFound"))
    config = ClusterConfig(server=server.url, auth=StaticAuth(bearer("hunter2-token")))
    lines = Lines()
    with tracing.traced(verbosity, lines):
        async with KubeClient(config, retry=ONE_TRY) as client:
            await client.get(SECRETS, "a", "demo")
            await client.create(SECRETS, SECRET, "demo")
            with pytest.raises(NotFound):
                await client.get(SECRETS, "b", "demo")
    assert not tracing.traces()
    return lines.text


@pytest.mark.found("op-37")
async def test_each_request_is_a_line(server: ScriptedServer) -> None:
    lines = (await traced(server, 6)).splitlines()

    titles = [line.rpartition(" in ")[0] for line in lines]
    assert titles == [
        f"GET {server.url}{PATH}/a 200 OK",
        f"POST {server.url}{PATH} 201 Created",
        f"GET {server.url}{PATH}/b 404 Not Found",
    ]
    assert all(line.endswith(" ms") for line in lines)


@pytest.mark.found("op-37")
@pytest.mark.parametrize("verbosity", [6, 7, 8, 9, 100])
async def test_no_level_prints_credentials_or_bodies(server: ScriptedServer, verbosity: int) -> None:
    text = await traced(server, verbosity)

    assert "hunter2" not in text
    assert "Bearer" not in text
    assert "aHVudGVyMg" not in text
    assert ("    Authorization: [not shown]\n" in text) == (verbosity >= 7)
    assert ("Response headers:" in text) == (verbosity >= 8)


@pytest.mark.parametrize("verbosity", [-1, 0, 5])
async def test_lower_levels_print_nothing(server: ScriptedServer, verbosity: int) -> None:
    assert await traced(server, verbosity) == ""


async def test_a_request_without_an_answer_is_printed_with_the_reason() -> None:
    lines = Lines()
    with tracing.traced(6, lines):
        async with KubeClient(ClusterConfig(server="http://127.0.0.1:9"), retry=ONE_TRY) as client:
            with pytest.raises(ConnectionFailed):
                await client.get(SECRETS, "a", "demo")
    assert lines.text.startswith(f"GET http://127.0.0.1:9{PATH}/a failed after ")
    assert "Connection refused" in lines.text


def test_commands_in_a_query_are_not_printed() -> None:
    lines = Lines()
    with tracing.traced(6, lines):
        url = "https://c/api/v1/namespaces/n/pods/p/exec?command=psql&command=password%3Dhunter2&stdout=true"
        tracing.TracedRequest("GET", url).answered(101, ())
    assert "hunter2" not in lines.text
    assert "command=[not shown]" in lines.text.replace("+", " ")
    assert "stdout=true 101 Switching Protocols" in lines.text


async def test_requests_to_stores_are_printed_without_their_signatures(server: ScriptedServer) -> None:
    server.on("GET /bucket/key", answer_json({"a": "hunter2"}))
    lines = Lines()
    with tracing.traced(8, lines):
        async with new_session(tls_context()) as session:
            await send(
                session, "GET", f"{server.url}/bucket/key?X-Amz-Signature=hunter2", policy=RequestPolicy()
            )
            with pytest.raises(aiohttp.ClientError):
                await session.get("http://127.0.0.1:9/other")
    first, second = lines.text.splitlines()
    assert first.startswith(f"GET {server.url}/bucket/key 200 OK in ")
    assert second.startswith("GET http://127.0.0.1:9/other failed after ")
    assert "hunter2" not in lines.text


def test_a_server_with_a_debug_log_traces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "level", logging.DEBUG)
    logging.getLogger().manager._clear_cache()  # type: ignore[attr-defined]

    assert not tracing.traces()
    logging.getLogger().manager._clear_cache()  # type: ignore[attr-defined]


@pytest.mark.found("op-37")
def test_a_password_in_an_address_and_a_signed_redirect_are_not_printed() -> None:
    lines = Lines()
    with tracing.traced(8, lines):
        request = tracing.TracedRequest("GET", "https://jane:hunter2@api.example.com/api?limit=5")
        request.answered(302, [("Location", "https://login.example.com/?state=hunter2")])

    assert "hunter2" not in lines.text
    assert "GET https://api.example.com/api?limit=5 302 Found" in lines.text
    assert "    Location: [not shown]" in lines.text
