"""Items that several chains need are restored once, and no chain waits for ever."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pinnace.restore.item.claims import Chain, Claims
from pinnace.restore.selection.reading import ItemKey
from tests.support.tasks import settled

NODES = range(6)


def key(node: int) -> ItemKey:
    return ItemKey("things", "ns", str(node))


async def test_a_second_chain_waits_until_the_first_is_finished() -> None:
    claims, first, second = Claims(), Chain(), Chain()
    assert claims.claim(key(0), first)
    assert not claims.claim(key(0), second)
    waiting = asyncio.create_task(claims.wait(key(0), second))
    await settled()
    assert not waiting.done()

    claims.finish(key(0))

    await waiting
    assert second.waits_for is None
    assert len(claims) == 1


async def test_a_cancelled_chain_does_not_disturb_the_others() -> None:
    claims = Claims()
    claims.claim(key(0), Chain())
    gone, chain = Chain(), Chain()
    cancelled = asyncio.create_task(claims.wait(key(0), gone))
    waiting = asyncio.create_task(claims.wait(key(0), chain))
    await settled()

    cancelled.cancel()
    await asyncio.wait([cancelled])

    assert gone.waits_for is None
    assert not waiting.done()
    claims.finish(key(0))
    await waiting


@given(
    edges=st.dictionaries(st.sampled_from(NODES), st.lists(st.sampled_from(NODES), max_size=4)),
    yields=st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
def test_any_graph_of_additional_items_ends_with_each_restored_once(
    edges: dict[int, list[int]], yields: list[int]
) -> None:
    done: list[int] = []

    async def restore(claims: Claims, node: int, chain: Chain) -> None:
        if not claims.claim(key(node), chain):
            await claims.wait(key(node), chain)
            return
        try:
            for _ in range(yields[node]):
                await asyncio.sleep(0)
            for other in edges.get(node, ()):
                await restore(claims, other, chain)
            done.append(node)
        finally:
            claims.finish(key(node))

    async def everything() -> None:
        claims = Claims()
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            for node in NODES:
                tasks.create_task(restore(claims, node, Chain()))

    asyncio.run(everything())
    assert sorted(done) == list(NODES)
