"""OIDC tokens, renewed at a made-up issuer that speaks https with an authority of its own."""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from hack.cluster.pki import CertificateAuthority
from pinnace.kube.auth.oidc import OIDCAuth, OIDCSettings
from pinnace.kube.config import load_config
from pinnace.kube.errors import ConfigError, KubeError, NotSent, NotTrusted
from pinnace.kube.resources import NAMESPACES
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.credentials import basic, bearer
from pinnace.kube.transport.tls import TLSSettings
from tests.support.clock import START, FakeClock
from tests.unit.kube.scripted import (
    ScriptedServer,
    answer_bytes,
    answer_json,
    answer_status,
    connected,
    scripted_server,
)

DISCOVERY = "GET /realm/.well-known/openid-configuration"
TOKEN = "POST /token"


def id_token(name: str, expires_in: timedelta = timedelta(minutes=5)) -> str:
    """An unsigned token of the right shape."""
    claims = {"sub": name, "exp": (START + expires_in).timestamp()}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + ".signature"


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "pki", name="issuer")


@pytest.fixture
async def issuer(authority: CertificateAuthority) -> AsyncIterator[ScriptedServer]:
    pair = authority.issue_server("server", addresses=("127.0.0.1",), names=())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    async with scripted_server(context) as running:
        running.on(DISCOVERY, answer_json({"issuer": "x", "token_endpoint": f"{running.url}/token"}))
        yield running


@pytest.fixture
def make(issuer: ScriptedServer, authority: CertificateAuthority, clock: FakeClock) -> Any:
    def build(**changes: Any) -> OIDCAuth:
        settings: dict[str, Any] = {
            "issuer": f"{issuer.url}/realm",
            "client_id": "pinnace",
            "client_secret": "cl1ent s3cret",
            "id_token": id_token("old"),
            "refresh_token": "refresh-1",
            "origin": "k: users[u].user.auth-provider",
            "tls": TLSSettings(ca=authority.certificate.read_bytes()),
        }
        return OIDCAuth(OIDCSettings(**(settings | changes)), clock=clock)

    return build


async def test_a_valid_token_is_used_as_it_is(make: Any, issuer: ScriptedServer) -> None:
    assert await make().credentials() == bearer(id_token("old"))
    assert issuer.seen == []


async def test_an_expiring_token_is_renewed_and_the_new_refresh_token_kept(
    make: Any, issuer: ScriptedServer, clock: FakeClock
) -> None:
    first, second = id_token("new", timedelta(minutes=10)), id_token("newest", timedelta(minutes=20))
    issuer.on(
        TOKEN,
        answer_json({"id_token": first, "refresh_token": "refresh-2", "access_token": "x"}),
        answer_json({"id_token": second}),
    )
    auth = make()
    clock.turn(timedelta(minutes=5, seconds=-11))
    assert await auth.credentials() == bearer(id_token("old"))
    clock.turn(1)
    assert await auth.credentials() == bearer(first)
    clock.turn(timedelta(minutes=5))
    assert await auth.credentials() == bearer(second)
    forms = [parse_qs(seen.body.decode()) for seen in issuer.seen if seen.call == TOKEN]
    assert forms == [
        {"grant_type": ["refresh_token"], "refresh_token": ["refresh-1"]},
        {"grant_type": ["refresh_token"], "refresh_token": ["refresh-2"]},
    ]
    sent = next(seen for seen in issuer.seen if seen.call == TOKEN)
    assert sent.headers["Authorization"] == basic("pinnace", "cl1ent+s3cret").authorization


async def test_an_issuer_that_wants_the_secret_in_the_form(make: Any, issuer: ScriptedServer) -> None:
    issuer.on(TOKEN, answer_status(401), answer_json({"id_token": id_token("new")}))
    assert await make(id_token="").credentials() == bearer(id_token("new"))
    _, last = (seen for seen in issuer.seen if seen.call == TOKEN)
    assert "Authorization" not in last.headers
    assert parse_qs(last.body.decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["refresh-1"],
        "client_id": ["pinnace"],
        "client_secret": ["cl1ent s3cret"],
    }


async def test_a_public_client_sends_only_its_id(make: Any, issuer: ScriptedServer) -> None:
    issuer.on(TOKEN, answer_json({"id_token": id_token("new")}))
    await make(id_token="no token", client_secret="").credentials()
    (sent,) = (seen for seen in issuer.seen if seen.call == TOKEN)
    assert parse_qs(sent.body.decode())["client_id"] == ["pinnace"]
    assert "Authorization" not in sent.headers


async def test_a_401_renews(make: Any, issuer: ScriptedServer, server: ScriptedServer) -> None:
    issuer.on(TOKEN, answer_json({"id_token": id_token("new")}))
    server.on("GET /version", answer_status(401), answer_json({"gitVersion": "v1"}))
    config = ClusterConfig(server=server.url, auth=make())
    async with connected(server, config=config) as client:
        await client.version()
    assert [seen.headers["Authorization"] for seen in server.seen] == [
        f"Bearer {id_token('old')}",
        f"Bearer {id_token('new')}",
    ]


async def test_an_opaque_new_token_is_used_until_it_is_rejected(make: Any, issuer: ScriptedServer) -> None:
    issuer.on(TOKEN, answer_json({"id_token": "opaque"}), answer_json({"id_token": "next"}))
    auth = make(id_token="")
    assert [await auth.credentials() for _ in range(3)] == [bearer("opaque")] * 3
    assert await auth.rejected(bearer("opaque"))
    assert await auth.credentials() == bearer("next")
    assert issuer.calls().count(TOKEN) == 2


async def test_a_401_without_refresh_token_is_final(make: Any) -> None:
    assert not await make(refresh_token="").rejected(bearer(id_token("old")))


async def test_an_expired_token_without_refresh_token(make: Any, clock: FakeClock) -> None:
    clock.turn(timedelta(hours=1))
    with pytest.raises(
        ConfigError, match=r"auth-provider: the id-token has expired and there is no refresh-token"
    ):
        await make(refresh_token="").credentials()


async def test_a_refusal_quotes_nothing(make: Any, issuer: ScriptedServer) -> None:
    issuer.on(TOKEN, answer_json({"error": "invalid_grant", "token": "refresh-1"}, code=400))
    with pytest.raises(ConfigError, match=r"refused to renew the token \(HTTP status 400\)") as caught:
        await make(id_token="").credentials()
    assert "refresh-1" not in str(caught.value)


@pytest.mark.parametrize("answer", [answer_json({}), answer_json({"id_token": 5}), answer_json([])])
async def test_an_answer_without_token_is_an_error(make: Any, issuer: ScriptedServer, answer: Any) -> None:
    issuer.on(TOKEN, answer)
    with pytest.raises(NotSent, match="gave no"):
        await make(id_token="").credentials()


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (answer_status(404), ConfigError, "answered with HTTP status 404"),
        (answer_status(503), NotSent, "answered with HTTP status 503"),
        (answer_json({}), NotSent, "is no OpenID discovery document"),
        (answer_bytes(b"<html>"), NotSent, "is no OpenID discovery document; a proxy"),
        (answer_json({"token_endpoint": "http://elsewhere/token"}), ConfigError, "must begin with https://"),
    ],
)
async def test_a_bad_discovery_document_is_an_error(
    make: Any, issuer: ScriptedServer, answer: Any, kind: type[KubeError], message: str
) -> None:
    issuer.on(DISCOVERY, answer)
    with pytest.raises(kind, match=message):
        await make(id_token="").credentials()


async def test_an_untrusted_issuer_gets_nothing(make: Any, issuer: ScriptedServer, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path / "other", name="other")
    with pytest.raises(NotTrusted, match="cannot reach the identity provider"):
        await make(id_token="", tls=TLSSettings(ca=other.certificate.read_bytes())).credentials()
    assert issuer.seen == []


async def test_plain_http_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"idp-issuer-url must begin with https://"):
        await make(id_token="", issuer="http://127.0.0.1:1").credentials()


async def test_from_kubeconfig_which_is_left_alone(
    issuer: ScriptedServer, authority: CertificateAuthority, tmp_path: Path
) -> None:
    issuer.on(TOKEN, answer_json({"id_token": id_token("new", timedelta(days=365_0)), "refresh_token": "r2"}))
    provider = {
        "name": "oidc",
        "config": {
            "idp-issuer-url": f"{issuer.url}/realm",
            "client-id": "pinnace",
            "client-secret": "s",
            "refresh-token": "r1",
            "idp-certificate-authority": "pki/ca.crt",
        },
    }
    assert authority.certificate == tmp_path / "pki" / "ca.crt"
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://k"}}],
        "users": [{"name": "c", "user": {"auth-provider": provider}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    before = path.read_bytes()
    config = load_config(str(path), environ={})
    assert await config.auth.credentials() == bearer(id_token("new", timedelta(days=365_0)))
    assert path.read_bytes() == before


async def test_a_passing_failure_of_the_issuer_is_repeated(
    make: Any, issuer: ScriptedServer, server: ScriptedServer
) -> None:
    """A request waits for its credentials as it does for the API server, writes too: it was not sent yet."""
    discovery = issuer.scripts[DISCOVERY][0]
    issuer.on(DISCOVERY, answer_bytes(b"<html>"), discovery)
    token = {"id_token": id_token("new", timedelta(minutes=10))}
    issuer.on(TOKEN, answer_status(503), answer_bytes(b"<html>"), answer_json({}), answer_json(token))
    server.on("PUT /api/v1/namespaces/a", answer_json({"kind": "Namespace", "metadata": {"name": "a"}}))
    config = ClusterConfig(server=server.url, auth=make(id_token=""))
    async with connected(server, config=config) as client:
        await client.replace(NAMESPACES, "a", {})
    assert server.calls() == ["PUT /api/v1/namespaces/a"]
