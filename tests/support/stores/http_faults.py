"""The behaviour of every store over HTTP when connections fail or something else answers in its place.

`HTTPStoreFaults` is for the stores of GCS and Azure, `FalseAnswers` for all. The classes that run them
give the fixtures of their stores: `store`; `through`, the same through `proxy`; `busy`, how
the service says that it is overloaded; `missing`, a bucket that does not exist; `nowhere`, one on a
port without a listener; `by_https`, a bucket opened with the authority of its server, and without.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from hack.cluster.faults import CutBeforeRequest, CutBody, Respond, Stall
from hack.cluster.proxy import FaultProxy
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreConfigError, StoreUnavailable
from pinnace.storage.interface import ObjectStore
from tests.support.stores.conformance import blocks, content
from tests.support.waiting import PATIENCE_SECONDS


def calls(store: ObjectStore) -> Sequence[Awaitable[object]]:
    """One of each kind."""
    return [
        store.put("a", b"x"),
        store.exists("a"),
        content(store, "a"),
        store.list_keys(""),
        store.delete("a"),
    ]


class HTTPStoreFaults:
    """The tests; `methods` are what a service's requests use."""

    methods: Sequence[str]

    async def test_transient_faults_are_tried_again(
        self, through: ObjectStore, proxy: FaultProxy, busy: Respond
    ) -> None:
        for fault in (busy, CutBeforeRequest()):
            for method in self.methods:
                proxy.rules.add(fault, method=method, times=1)
            await through.put("a/b", b"x")
            assert await through.exists("a/b")
            proxy.rules.add(fault, method="GET", times=1)
            assert await content(through, "a/b") == b"x"
            assert await through.list_keys("a/") == ["a/b"]
            await through.delete("a/b")

    async def test_lasting_faults_end(self, through: ObjectStore, proxy: FaultProxy, busy: Respond) -> None:
        proxy.rules.add(busy)
        for call in calls(through):
            with pytest.raises(StoreUnavailable) as caught:
                await call
            assert "\n" not in str(caught.value)
            assert "RequestId" not in str(caught.value)

    async def test_an_interrupted_download_continues(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy
    ) -> None:
        await store.put("large", blocks(4))
        proxy.rules.add(CutBody(after_bytes=1 << 20), method="GET", times=2)

        assert await content(through, "large") == b"".join([block async for block in blocks(4)])
        assert [exchange.status for exchange in proxy.exchanges] == [200, 206, 206]

    async def test_a_download_that_always_breaks_fails(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy
    ) -> None:
        await store.put("large", blocks(2))
        proxy.rules.add(CutBody(after_bytes=0), method="GET")
        with pytest.raises(StoreUnavailable, match="cannot read 'large'"):
            await content(through, "large")

    async def test_an_object_that_changes_meanwhile_is_never_mixed(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy
    ) -> None:
        await store.put("large", blocks(4))
        proxy.rules.add(CutBody(after_bytes=1 << 20), method="GET", times=1)
        async with through.get("large") as stream:
            await anext(stream)
            await store.put("large", blocks(5))
            with pytest.raises(StorageError, match="'large': it changed while it was read"):
                [block async for block in stream]

    async def test_a_bucket_that_is_not_there(self, missing: ObjectStore) -> None:
        for call in (
            missing.put("a", b"x"),
            missing.list_keys(""),
            missing.delete("a"),
            content(missing, "a"),
        ):
            with pytest.raises(StoreConfigError):
                await call

    async def test_a_port_without_listener_is_an_error(self, nowhere: ObjectStore) -> None:
        for call in calls(nowhere):
            with pytest.raises(StoreUnavailable, match=r"http://127.0.0.1:1"):
                await call

    async def test_an_own_authority(self, by_https: tuple[ObjectStore, ObjectStore]) -> None:
        trusting, suspicious = by_https
        await trusting.put("a/b", b"x")

        assert await content(trusting, "a/b") == b"x"
        for call in calls(suspicious):
            with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
                await call


PAGE = b"<html><head><title>Log in</title></head><body><form/></body></html>"
ERROR = b"<Error><Code>InternalError</Code><Message>We failed.</Message></Error>"
FALSE_ANSWERS = {
    "html": Respond(200, PAGE, {"Content-Type": "text/html; charset=utf-8", "ETag": '"5d41402abc4b2a76"'}),
    "html without a type": Respond(200, PAGE),
    "empty": Respond(200),
    "json": Respond(200, b"{}", {"Content-Type": "application/json"}),
    "error": Respond(200, ERROR, {"Content-Type": "application/xml"}),
    "xml": Respond(200, b"<Result/>", {"Content-Type": "application/xml"}),
}
"""Answers of proxies, login pages, caches and broken stores."""

Call = Callable[[ObjectStore], Awaitable[object]]

ANSWERED_CALLS: dict[str, Call] = {
    "put": lambda store: store.put("b", b"x"),
    "put in parts": lambda store: store.put("b", blocks(12)),
    "get": lambda store: content(store, "a"),
    "exists": lambda store: store.exists("a"),
    "size": lambda store: store.size("a"),
    "keys": lambda store: store.list_keys(""),
    "prefixes": lambda store: store.list_prefixes(""),
}


class FalseAnswers:
    """The tests; see the module for the fixtures."""

    @pytest.mark.parametrize("answer", FALSE_ANSWERS.values(), ids=FALSE_ANSWERS)
    @pytest.mark.parametrize("call", ANSWERED_CALLS.values(), ids=ANSWERED_CALLS)
    async def test_an_answer_of_something_else_is_an_error(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy, call: Call, answer: Respond
    ) -> None:
        await store.put("a", b"x")
        proxy.rules.add(answer)
        with pytest.raises(StoreUnavailable) as caught:
            await call(through)

        assert "\n" not in str(caught.value)
        assert "not the service's answer" in str(caught.value)
        assert not await store.exists("b")

    @pytest.mark.parametrize("answer", FALSE_ANSWERS.values(), ids=FALSE_ANSWERS)
    async def test_a_deletion_that_was_not_carried_out_is_an_error(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy, answer: Respond
    ) -> None:
        await store.put("a", b"x")
        proxy.rules.add(answer, method="DELETE")
        with pytest.raises(StorageError, match=r"cannot delete 'a'|not the service's answer"):
            await through.delete("a")

        assert await store.exists("a")

    @pytest.mark.parametrize("answer", FALSE_ANSWERS.values(), ids=FALSE_ANSWERS)
    async def test_a_deletion_that_was_not_carried_out_is_sent_again(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy, answer: Respond
    ) -> None:
        await store.put("a", b"x")
        rule = proxy.rules.add(answer, method="DELETE", times=1)
        await through.delete("a")

        assert rule.hits == 1
        assert not await store.exists("a")

    @pytest.mark.parametrize("answer", FALSE_ANSWERS.values(), ids=FALSE_ANSWERS)
    async def test_false_answers_that_end_are_made_good(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy, answer: Respond
    ) -> None:
        await store.put("a", b"x")
        for call in ANSWERED_CALLS.values():
            rule = proxy.rules.add(answer, times=1)
            await call(through)
            assert rule.hits == 1

        assert await store.size("b") == 12 << 20

    @pytest.mark.parametrize("status", [200, 404])
    async def test_a_missing_page_is_no_missing_object(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy, status: int
    ) -> None:
        """An optional file that is not there is taken for one that was never written."""
        await store.put("a", b"x")
        proxy.rules.add(Respond(status, PAGE, {"Content-Type": "text/html"}))
        for call in (content(through, "a"), through.exists("a"), through.size("a"), through.delete("a")):
            with pytest.raises(StorageError) as caught:
                await call
            assert not isinstance(caught.value, ObjectNotFound)

    @pytest.mark.parametrize("status", [302, 303, 307])
    async def test_a_redirection_of_a_proxy_that_ends_is_made_good(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy, status: int
    ) -> None:
        await store.put("a", b"x")
        for call in ANSWERED_CALLS.values():
            rule = proxy.rules.add(Respond(status, b"", {"Location": "http://127.0.0.1:1/login"}), times=1)
            await call(through)
            assert rule.hits == 1

    async def test_redirects_are_not_followed(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy
    ) -> None:
        await store.put("a", b"x")
        proxy.rules.add(Respond(307, b"", {"Location": "http://127.0.0.1:1/elsewhere"}))
        for call in ANSWERED_CALLS.values():
            with pytest.raises(StorageError) as caught:
                await call(through)
            assert "127.0.0.1:1/" not in str(caught.value)

    @pytest.mark.parametrize("call", ANSWERED_CALLS.values(), ids=ANSWERED_CALLS)
    async def test_a_store_that_accepts_and_never_answers_fails_fast(
        self, hasty: ObjectStore, proxy: FaultProxy, call: Call
    ) -> None:
        proxy.rules.add(Stall())
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(StoreUnavailable, match="no answer in time"):
                await call(hasty)
