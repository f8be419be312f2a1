"""How long the pod volumes of one backup or restore may take together."""

import asyncio

from pinnace.api.values.durations import Duration
from pinnace.volumes.pods.timeouts import Timeout


async def test_the_limit_is_counted_from_the_first_volume_and_is_one_for_all() -> None:
    timeout = Timeout({}, Duration.minutes(1))
    await asyncio.to_thread(int)  # takes some time
    first_at = asyncio.get_running_loop().time()

    async with timeout.limit() as first:
        end = first.when()
    async with timeout.limit() as second:
        assert second.when() == end

    assert end is not None
    assert first_at + 60 <= end
