"""Answers that are not the API server's, or not to what was asked: none is believed, whatever its status."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from aiohttp import web

from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import SUSPECTS, AlreadyExists, InvalidResponse, NotFound, error_from_body
from pinnace.kube.resources import CONFIGMAPS, DEPLOYMENTS
from pinnace.kube.transport.retrying import ThrottledRetryPolicy
from tests.unit.kube.scripted import (
    Answer,
    ScriptedServer,
    answer_bytes,
    answer_cut,
    answer_json,
    answer_status,
    connected,
    listing,
)

COLLECTION = "/api/v1/namespaces/demo/configmaps"
ONE = f"{COLLECTION}/a"
METADATA = {"name": "a", "namespace": "demo", "uid": "u-1"}
BODY: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": METADATA, "data": {"k": "v"}}
SENT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a"},
    "data": {"k": "v"},
}
SUCCESS = {"apiVersion": "v1", "kind": "Status", "status": "Success"}
LOGIN = b"<!DOCTYPE html><html><title>Sign in</title></html>"


def answer_html(body: bytes = LOGIN, *, code: int = 200) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, status=code, content_type="text/html")

    return answer


def changed(**metadata: Any) -> dict[str, Any]:
    return {**BODY, "metadata": {**METADATA, **metadata}}


LIES: dict[str, Answer] = {
    "html": answer_html(),
    "html-called-json": answer_bytes(LOGIN),
    "empty": answer_bytes(b""),
    "empty-object": answer_json({}),
    "null": answer_json(None),
    "array": answer_json([BODY]),
    "truncated": answer_bytes(json.dumps(BODY).encode()[:60]),
    "another-kind": answer_json({**BODY, "kind": "Secret"}),
    "a-table": answer_json({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "rows": []}),
    "no-kind": answer_json({"metadata": METADATA}),
    "no-metadata": answer_json({"kind": "ConfigMap", "apiVersion": "v1"}),
    "odd-metadata": answer_json({"kind": "ConfigMap", "apiVersion": "v1", "metadata": ["a"]}),
    "another-name": answer_json(changed(name="b")),
    "another-namespace": answer_json(changed(namespace="other")),
    "success-status": answer_json(SUCCESS),
    "no-content": answer_bytes(b"", code=204),
    "partial-content": answer_json(BODY, code=206),
    "redirect": answer_html(code=302),
    "not-found-in-html": answer_html(code=404),
}
Call = Callable[[KubeClient], Awaitable[Any]]
CALLS: dict[str, tuple[str, Call]] = {
    "get": (f"GET {ONE}", lambda client: client.get(CONFIGMAPS, "a", "demo")),
    "create": (f"POST {COLLECTION}", lambda client: client.create(CONFIGMAPS, SENT, "demo")),
    "create-bytes": (
        f"POST {COLLECTION}",
        lambda client: client.create_bytes(CONFIGMAPS, orjson.dumps(SENT), "demo"),
    ),
    "replace": (f"PUT {ONE}", lambda client: client.replace(CONFIGMAPS, "a", SENT, "demo")),
    "patch": (f"PATCH {ONE}", lambda client: client.patch(CONFIGMAPS, "a", {"data": {}}, "demo")),
    "delete": (f"DELETE {ONE}", lambda client: client.delete(CONFIGMAPS, "a", "demo")),
}
IDEMPOTENT = [name for name in CALLS if name != "replace"]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("call", CALLS)
async def test_an_answer_that_is_not_the_api_servers_is_an_error(
    server: ScriptedServer, call: str, lie: str
) -> None:
    line, act = CALLS[call]
    if (call, lie) == ("delete", "success-status"):
        return  # How deletions are answered.
    server.on(line, LIES[lie])
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match="A proxy or a login page") as caught:
            await act(client)
    assert "Sign in" not in str(caught.value) or "HTTP status" in str(caught.value)
    assert server.calls().count(line) == (1 if call == "replace" else 5)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("call", IDEMPOTENT)
async def test_a_wrong_answer_that_passes_is_repeated(server: ScriptedServer, call: str, lie: str) -> None:
    line, act = CALLS[call]
    server.on(line, LIES[lie], answer_json(BODY))
    async with connected(server) as client:
        result = await act(client)
    found = json.loads(result) if isinstance(result, bytes) else result
    assert found == (SUCCESS if (call, lie) == ("delete", "success-status") else BODY)


async def test_a_create_without_uid_in_its_answer_is_not_believed(server: ScriptedServer) -> None:
    echo = {**BODY, "metadata": {"name": "a", "namespace": "demo"}}
    server.on(f"POST {COLLECTION}", answer_json(echo, code=201), answer_json(BODY, code=201))
    async with connected(server) as client:
        assert await client.create(CONFIGMAPS, SENT, "demo") == BODY


class TestACreateWithoutABelievableAnswer:
    @pytest.fixture
    def server(self, server: ScriptedServer) -> ScriptedServer:
        server.on(f"POST {COLLECTION}", answer_html(), answer_status(409, "AlreadyExists", "it exists"))
        return server

    async def test_a_create_whose_answer_was_lost_finds_its_object(self, server: ScriptedServer) -> None:
        server.on(f"GET {ONE}", answer_json(BODY))
        async with connected(server) as client:
            assert await client.create(CONFIGMAPS, SENT, "demo") == BODY

    async def test_an_object_of_another_client_is_not_taken_for_the_created_one(
        self, server: ScriptedServer
    ) -> None:
        server.on(f"GET {ONE}", answer_json({**BODY, "data": {"k": "another"}}))
        async with connected(server) as client:
            with pytest.raises(AlreadyExists, match="it exists"):
                await client.create(CONFIGMAPS, SENT, "demo")

    async def test_a_create_of_bytes_tells_the_caller_that_an_attempt_was_open(
        self, server: ScriptedServer
    ) -> None:
        async with connected(server) as client:
            with pytest.raises(AlreadyExists) as caught:
                await client.create_bytes(CONFIGMAPS, orjson.dumps(SENT), "demo")
        assert caught.value.after_open_attempt


async def test_an_object_that_existed_before_is_not_taken_for_the_created_one(server: ScriptedServer) -> None:
    server.on(f"POST {COLLECTION}", answer_status(409, "AlreadyExists", "it exists"))
    async with connected(server) as client:
        with pytest.raises(AlreadyExists) as caught:
            await client.create(CONFIGMAPS, SENT, "demo")
    assert not caught.value.after_open_attempt
    assert server.calls() == [f"POST {COLLECTION}"]


async def test_a_deletion_whose_answer_was_lost_is_found_done(server: ScriptedServer) -> None:
    server.on(f"DELETE {ONE}", answer_cut(b"{"), answer_status(404, "NotFound", "gone"))
    async with connected(server) as client:
        assert (await client.delete(CONFIGMAPS, "a", "demo"))["status"] == "Success"
        with pytest.raises(NotFound):
            await client.delete(CONFIGMAPS, "a", "demo")


@pytest.mark.parametrize(
    "answer",
    [
        {**SUCCESS, "status": "Failure", "code": 403},
        {**SUCCESS, "details": {"name": "b", "uid": "u-1"}},
        {**SUCCESS, "details": {"name": "a", "uid": "u-2"}},
        changed(uid="u-2"),
    ],
)
async def test_a_deletion_of_something_else_is_refused(
    server: ScriptedServer, answer: dict[str, Any]
) -> None:
    server.on(f"DELETE {ONE}", answer_json(answer))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse):
            await client.delete(CONFIGMAPS, "a", "demo", uid="u-1")


@pytest.mark.parametrize(
    "text", [b"404 page not found\n", b'{"kind":"Status","code":404,"reason":"NotFound"}']
)
async def test_not_found_in_the_api_servers_words_is_believed(server: ScriptedServer, text: bytes) -> None:
    server.on(f"GET {ONE}", answer_bytes(text, code=404))
    async with connected(server) as client:
        with pytest.raises(NotFound):
            await client.get(CONFIGMAPS, "a", "demo")
    assert len(server.seen) == 1


async def test_an_unknown_path_is_a_kind_or_version_that_is_not_served(
    server: ScriptedServer,
) -> None:
    server.on(f"GET {ONE}", answer_bytes(b"404 page not found\n", code=404))
    async with connected(server) as client:
        with pytest.raises(NotFound, match="does not serve configmaps in version v1 "):
            await client.get(CONFIGMAPS, "a", "demo")


@pytest.mark.found("op-64")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/apis/velero.io/v1/namespaces/velero/restores?limit=500", "restores.velero.io in version v1"),
        ("/apis/velero.io/v1/namespaces/velero/restores/r", "restores.velero.io in version v1"),
        ("/apis/velero.io/v2alpha1/datauploads", "datauploads.velero.io in version v2alpha1"),
        ("/api/v1/namespaces/shop", "namespaces in version v1"),
        ("/version", "this path"),
    ],
)
def test_a_kind_that_is_not_served_is_named(path: str, kind: str) -> None:
    error = error_from_body(404, b"404 page not found\n", path=path)
    assert str(error) == f"the cluster does not serve {kind} (404 page not found)"


async def test_a_sub_resource_of_another_kind_is_believed(server: ScriptedServer) -> None:
    path = "GET /apis/apps/v1/namespaces/demo/deployments/a/scale"
    server.on(path, answer_json({}), answer_json({"kind": "Scale"}))
    async with connected(server) as client:
        assert await client.get(DEPLOYMENTS, "a", "demo", subresource="scale") == {"kind": "Scale"}


class TestLists:
    """Each page is asked for again, and what was read behind a damaged one is forgotten."""

    LIST = f"GET {COLLECTION}"
    WHOLE = json.dumps(listing(["a", "b"], token="t1")).encode()

    @pytest.mark.parametrize(
        "lie",
        [
            answer_html(),
            answer_bytes(b""),
            answer_json({}),
            answer_json({**listing(["x"]), "kind": "SecretList"}),
            answer_json({**listing(["x"]), "kind": "ConfigMap"}),
            answer_json({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}}),
            answer_bytes(WHOLE[:-1]),
            answer_bytes(WHOLE[:-4]),
            answer_bytes(WHOLE.replace(b'"demo"', b'"other"')),
            answer_bytes(WHOLE.replace(b'"data"', b"data")),
        ],
        ids=[
            "html",
            "empty",
            "empty-object",
            "another-list",
            "no-list",
            "no-items",
            "truncated",
            "truncated-behind-a-brace",
            "another-namespace",
            "damaged",
        ],
    )
    @pytest.mark.parametrize("page", [1, 2])
    async def test_a_page_of_another_list_is_requested_again(
        self, server: ScriptedServer, lie: Answer, page: int
    ) -> None:
        first, second = answer_json(listing(["a", "b"], token="t1")), answer_json(listing(["c"], token="t2"))
        pages = {"": [first], "t1": [second], "t2": [answer_json(listing(["d"]))]}
        pages["" if page == 1 else "t1"].insert(0, lie)

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            answers = pages[request.query.get("continue", "")]
            return await (answers.pop(0) if len(answers) > 1 else answers[0])(request)

        server.on(self.LIST, answer)
        async with connected(server) as client:
            items = await client.list_all(CONFIGMAPS, "demo")
        assert [item["metadata"]["name"] for item in items] == ["a", "b", "c", "d"]

    async def test_a_list_that_is_always_another_one_is_an_error(self, server: ScriptedServer) -> None:
        server.on(self.LIST, answer_bytes(self.WHOLE[:-4]))
        async with connected(server, retry=ThrottledRetryPolicy(attempts=3)) as client:
            with pytest.raises(InvalidResponse, match=r"GET /api/v1/.*is not an API server's.*proxy"):
                await client.list_all(CONFIGMAPS, "demo")


VERSION = answer_json({"major": "1", "minor": "33", "gitVersion": "v1.33.4"})
CORE = answer_json({"kind": "APIVersions", "versions": ["v1"]})
GROUPS = answer_json({"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"version": "v1"}]}]})


def resources(group_version: str, name: str, kind: str) -> Answer:
    verbs = ["list", "create", "get", "delete"]
    entry = {"name": name, "kind": kind, "namespaced": True, "verbs": verbs}
    return answer_json({"kind": "APIResourceList", "groupVersion": group_version, "resources": [entry]})


class TestDiscovery:
    @pytest.fixture
    def server(self, server: ScriptedServer) -> ScriptedServer:
        server.on("GET /version", VERSION)
        server.on("GET /api", CORE)
        server.on("GET /apis", GROUPS)
        server.on("GET /api/v1", resources("v1", "pods", "Pod"))
        server.on("GET /apis/apps/v1", resources("apps/v1", "deployments", "Deployment"))
        return server

    @pytest.mark.parametrize("path", ["/version", "/api", "/apis", "/api/v1", "/apis/apps/v1"])
    @pytest.mark.parametrize(
        "lie",
        [answer_html(), answer_bytes(b""), answer_json({}), answer_json(SUCCESS)],
        ids=["html", "empty", "empty-object", "status"],
    )
    async def test_a_wrong_answer_to_discovery_hides_no_resource(
        self, server: ScriptedServer, path: str, lie: Answer
    ) -> None:
        server.scripts[f"GET {path}"].insert(0, lie)
        async with connected(server) as client:
            discovery = await Discovery.load(client)
        assert [resource.name for resource in discovery.resources] == ["pods", "deployments"]
        assert discovery.warnings == ()

    async def test_another_groups_answer_is_a_failure_of_the_group(self, server: ScriptedServer) -> None:
        server.on("GET /apis/apps/v1", resources("batch/v1", "jobs", "Job"))
        async with connected(server) as client:
            discovery = await Discovery.load(client)
        assert [resource.name for resource in discovery.resources] == ["pods"]
        assert "batch/v1, not apps/v1" in discovery.warnings[0]


@pytest.mark.parametrize("levels", [400, 3000])
async def test_a_created_object_may_be_nested_deeply(server: ScriptedServer, levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    body = json.dumps(BODY)[:-1].encode() + b',"spec":' + deep + b"}"
    server.on(f"POST {COLLECTION}", answer_bytes(body, code=201))
    async with connected(server) as client:
        assert await client.create_bytes(CONFIGMAPS, body, "demo") == body
    assert len(server.seen) == 1


@pytest.mark.found("op-51")
@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            b"<!DOCTYPE html>\n<html>\n<head>\n<title>Sign\n in</title>",
            f"a web page titled 'Sign in'. {SUSPECTS}",
        ),
        (b"<html><body>nginx</body></html>", f"a web page. {SUSPECTS}"),
        (b"<HTML><TITLE>", f"a web page. {SUSPECTS}"),
        (b"<?xml version='1.0'?><Error/>", f"an XML document. {SUSPECTS}"),
        (b"no route", "no route"),
    ],
)
def test_of_a_web_page_only_the_title_is_shown(body: bytes, shown: str) -> None:
    assert str(error_from_body(502, body, path="/")) == f"the server answered with HTTP status 502: {shown}"
