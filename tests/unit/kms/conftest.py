"""What these tests share."""

from collections.abc import AsyncIterator

import pytest

from tests.support.stores.scripted_cloud import Cloud, scripted_cloud


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with scripted_cloud() as cloud:
        yield cloud
