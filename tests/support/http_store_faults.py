"""What every store over our own HTTP requests must do when the way to it is bad; for those of GCS and Azure.

Whoever runs it gives the fixtures of its stores: `store`; `through`, the same through `proxy`; `busy`, how
the service says that it is overloaded; `missing`, a bucket that is not there; `nowhere`, one where nobody
listens; `by_https`, a bucket opened with the authority of its server, and without.
"""

from collections.abc import Awaitable, Sequence

import pytest

from hack.cluster.faults import CutBeforeRequest, CutBody, Respond
from hack.cluster.proxy import FaultProxy
from pinnace.storage.errors import StorageError, StoreConfigError, StoreUnavailable
from pinnace.storage.interface import ObjectStore
from tests.support.store_conformance import blocks, content


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

    async def test_an_interrupted_download_goes_on(
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

    async def test_nobody_listens(self, nowhere: ObjectStore) -> None:
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
