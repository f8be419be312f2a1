"""An upload is many requests: none follows the closing of the fence, no repetition, no abort."""

from dataclasses import dataclass, field

import pytest
from aiohttp import web

from pinnace.storage.errors import NotLeading
from pinnace.storage.fenced import FencedStore
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store
from pinnace.storage.upload import PART_SIZE_BYTES
from pinnace.store_access.requests import RequestPolicy
from tests.support.fences import TestFence
from tests.support.scripted_http import Service
from tests.support.stores.conformance import blocks

BEGUN = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
PATH = "/bucket/a"


@dataclass
class ClosingService(Service):
    """Closes the fence when it gets a certain request, the first of which is number 1."""

    fence: TestFence = field(default_factory=TestFence)
    closes_at: int = 0

    async def handle(self, request: web.BaseRequest) -> web.Response:
        answer = await super().handle(request)
        if len(self.asked) == self.closes_at:
            self.fence.closed = "another leads"
        return answer


@pytest.fixture
def service_kind() -> type[Service]:
    return ClosingService


@pytest.mark.found("L3")
@pytest.mark.parametrize(("closes_at", "most"), [(1, 1), (2, 3), (3, 3)])
async def test_no_request_of_an_upload_follows_the_closing(
    service: ClosingService, closes_at: int, most: int
) -> None:
    """The two parts are sent side by side: one of them may be under way when the other is answered."""
    service.closes_at = closes_at
    service.on("POST", PATH, (200, BEGUN))
    service.on("PUT", PATH, (200, b""))
    service.on("DELETE", PATH, (204, b""))
    inner = S3Store(
        parse_s3_config({"bucket": "bucket", "s3Url": service.url, "s3ForcePathStyle": "true"}),
        environ={"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"},
        policy=RequestPolicy(attempts=5, base_seconds=0.0),
    )
    store = FencedStore(inner, service.fence)
    try:
        with pytest.raises(NotLeading):
            await store.put("a", blocks(2, size=PART_SIZE_BYTES))
    finally:
        await store.close()
    assert closes_at <= len(service.asked) <= most


@pytest.mark.found("L3")
async def test_a_refused_request_is_not_repeated_once_the_fence_is_closed(service: ClosingService) -> None:
    service.closes_at = 1
    service.on("PUT", PATH, (503, b""))
    inner = S3Store(
        parse_s3_config({"bucket": "bucket", "s3Url": service.url, "s3ForcePathStyle": "true"}),
        environ={"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"},
        policy=RequestPolicy(attempts=5, base_seconds=0.0),
    )
    store = FencedStore(inner, service.fence)
    try:
        with pytest.raises(NotLeading):
            await store.put("a", b"x")
    finally:
        await store.close()
    assert len(service.asked) == 1


@pytest.mark.found("L3")
@pytest.mark.parametrize("is_deletion", [False, True])
async def test_a_fence_that_closes_after_the_connecting_lets_nothing_be_sent(
    service: ClosingService, is_deletion: bool
) -> None:
    """The first look is the store's, the second that of the connecting, the third that of the sending."""
    service.fence = TestFence(closes_after=2)
    inner = S3Store(
        parse_s3_config({"bucket": "bucket", "s3Url": service.url, "s3ForcePathStyle": "true"}),
        environ={"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"},
        policy=RequestPolicy(attempts=5, base_seconds=0.0),
    )
    store = FencedStore(inner, service.fence)
    try:
        with pytest.raises(NotLeading):
            await (store.delete("a") if is_deletion else store.put("a", b"x"))
    finally:
        await store.close()
    assert service.asked == []
