"""How requests of tenants are queued."""

from pinnace.nonadmin.controllers.parts import WORKERS, lane_of_tenant
from pinnace.runtime.keys import Key
from pinnace.runtime.queue import RateLimitedQueue


async def test_a_flood_of_one_tenant_leaves_a_worker_for_the_request_of_another_that_comes() -> None:
    queue: RateLimitedQueue[Key] = RateLimitedQueue(lane_of=lane_of_tenant)
    for number in range(100):
        queue.add(Key("flooder", f"r-{number}"))
    begun = [await queue.get() for _ in range(WORKERS - 1)]
    assert {key.namespace for key in begun} == {"flooder"}

    queue.add(Key("honest", "r"))

    assert await queue.get() == Key("honest", "r")
