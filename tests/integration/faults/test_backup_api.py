"""Backups of an API server that throttles, fails, stalls, breaks connections or forgets continue tokens."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import (
    CutBeforeRequest,
    CutBody,
    DropResponse,
    ExpireContinue,
    Fault,
    Respond,
    Rule,
    Stall,
    api_error,
    server_fault,
    too_many_requests,
)
from hack.cluster.proxy import FaultProxy
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import BackupProgress
from pinnace.archive.reader import ArchiveIndex
from pinnace.kube.resources import CONFIGMAPS
from pinnace.storage.backup_store import BackupStore
from tests.integration.faults.world import PAGE, Lab, SmallPages, config_map, no_longer_than, objects_in
from tests.support.faulty_parts import Reach

StartProxy = Callable[[ControlPlane], Awaitable[FaultProxy]]

MAPS_PATH = "/configmaps$"
NOT_JSON = Respond(
    200,
    b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"na',
    {"Content-Type": "application/json"},
)


@pytest.fixture
async def proxy(control_plane: ControlPlane, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(control_plane)


HANG_SECONDS = 150.0
"""Longer than all attempts of a request that stalls, also on a busy machine."""


async def items_in(store: BackupStore, lab: Lab, namespace: str = "") -> set[str]:
    """`<resource>/<name>` of each item in the tarball of b1. None is there twice: the index refuses that."""
    path = lab.workdir / "look.tar.gz"
    await store.download_contents("b1", path)
    try:
        with await ArchiveIndex.open(path, lab.workdir) as archive:
            return {
                f"{resource}/{name}"
                for resource in archive.resources
                for name in archive.names(resource, namespace or lab.namespace)
            }
    finally:
        path.unlink()


async def error_lines(store: BackupStore, pattern: str) -> int:
    """The number of errors in the log of b1 that match; asserts that it has no traceback."""
    async with store.read_text("BackupLog", "b1") as blocks:
        log = b"".join([block async for block in blocks]).decode()
    assert "Traceback" not in log
    return sum("level=error" in line and bool(re.search(pattern, line)) for line in log.splitlines())


PASSING: Sequence[tuple[str, Fault, int, int]] = [
    ("throttled", too_many_requests(retry_after_seconds=1), 1, 1),
    ("throttled-later", too_many_requests(retry_after_seconds=None), 3, 3),
    ("500", server_fault(500), 3, 1),
    ("502", server_fault(502), 2, 3),
    ("503", server_fault(503), 3, 3),
    ("cut-before", CutBeforeRequest(), 3, 1),
    ("cut-before-later", CutBeforeRequest(), 3, 3),
    ("cut-in-the-head", CutBody(0), 2, 3),
    ("cut-in-the-body", CutBody(700), 3, 1),
    ("cut-in-a-later-body", CutBody(700), 3, 3),
    ("answer-dropped", DropResponse(), 3, 3),
    ("stalled-before", Stall(), 1, 3),
    ("stalled-in-the-body", Stall(after_bytes=700), 1, 1),
]
"""Name, fault, how often it strikes in a row, and at which page."""


@pytest.mark.parametrize(
    ("fault", "times", "page"), [case[1:] for case in PASSING], ids=[case[0] for case in PASSING]
)
async def test_a_list_fault_that_passes_costs_nothing(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, fault: Fault, times: int, page: int
) -> None:
    rule = add_at_page(proxy, page, fault, times=times)
    done = await lab.back_up(store, client=await reach(proxy, kind=SmallPages))

    assert rule.hits == times
    assert (done.status.phase, done.status.errors) == (BackupPhase.COMPLETED, 0)
    await lab.assert_whole(store)


def add_at_page(proxy: FaultProxy, page: int, fault: Fault, *, times: int | None = None) -> Rule:
    """Make the n-th page of the list of ConfigMaps fail, and if the fault lasts, all later ones."""
    query = {"continue": "."} if page > 1 else None
    return proxy.rules.add(fault, path=MAPS_PATH, query=query, skip=max(0, page - 2), times=times)


LASTING: Sequence[tuple[str, Fault, str, int]] = [
    ("throttled", too_many_requests(retry_after_seconds=None), "Too many requests", 1),
    ("told-to-wait-for-ever", too_many_requests(retry_after_seconds=86400), "Too many requests", 1),
    ("500", server_fault(500), "Internal error occurred: injected", 1),
    ("500-later", server_fault(500), "Internal error occurred: injected", 3),
    ("503", server_fault(503), "HTTP status 503", 3),
    ("forbidden", api_error(403, "Forbidden", "configmaps is forbidden"), "configmaps is forbidden", 1),
    ("not-found", api_error(404, "NotFound", "no such resource"), "no such resource", 1),
    ("cut-before", CutBeforeRequest(), "closed the connection|was lost", 3),
    ("cut-in-the-body", CutBody(700), "cut in the middle", 1),
    ("cut-in-a-later-body", CutBody(700), "cut in the middle", 3),
    ("stalled", Stall(), "did not answer in time", 1),
    ("stalled-in-a-later-body", Stall(after_bytes=700), "did not answer in time", 3),
    ("not-json", NOT_JSON, "is not an API server's: it is not", 1),
    ("not-json-later", NOT_JSON, "is not an API server's: it is not", 3),
]
"""Name, fault, what the log says, and from which page on."""


@pytest.mark.parametrize(
    ("fault", "text", "page"), [case[1:] for case in LASTING], ids=[case[0] for case in LASTING]
)
async def test_a_list_fault_that_lasts_is_one_error_and_costs_one_resource(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, fault: Fault, text: str, page: int
) -> None:
    add_at_page(proxy, page, fault)
    async with no_longer_than(HANG_SECONDS):
        done = await lab.back_up(store, client=await reach(proxy, kind=SmallPages))

    assert (done.status.phase, done.status.errors) == (BackupPhase.PARTIALLY_FAILED, 1)
    assert await error_lines(store, text) == 1
    everything = set(await objects_in(lab.client, lab.namespace))
    maps = sorted(key for key in everything if key.startswith("configmaps/"))
    # Pages that came before the fault are kept, and all other resources are whole.
    lost = maps[2 * PAGE :] if page == 3 else maps
    assert await items_in(store, lab) == everything - set(lost)


@pytest.mark.parametrize("offer_token", [True, False], ids=["offered", "not-offered"])
@pytest.mark.parametrize("skip", [0, 2], ids=["second-page", "fourth-page"])
async def test_expired_continue_tokens_lose_and_double_nothing(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, offer_token: bool, skip: int
) -> None:
    rule = proxy.rules.add(ExpireContinue(offer_token=offer_token), path=MAPS_PATH, skip=skip, times=1)
    done = await lab.back_up(store, client=await reach(proxy, kind=SmallPages))

    assert rule.hits == 1
    assert done.status.phase == BackupPhase.COMPLETED
    expected = set(await objects_in(lab.client, lab.namespace))
    assert await items_in(store, lab) == expected
    assert done.status.progress == BackupProgress(total_items=len(expected), items_backed_up=len(expected))
    await lab.assert_whole(store)


@pytest.mark.found("K-F10")
async def test_a_list_that_goes_stale_again_and_again_is_read_as_a_whole(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach
) -> None:
    proxy.rules.add(ExpireContinue(offer_token=False), path=MAPS_PATH, skip=1)
    async with no_longer_than(HANG_SECONDS):
        done = await lab.back_up(store, client=await reach(proxy, kind=SmallPages))

    assert (done.status.phase, done.status.errors) == (BackupPhase.COMPLETED, 0)
    assert await items_in(store, lab) == set(await objects_in(lab.client, lab.namespace))
    await lab.assert_whole(store)


async def test_objects_created_and_deleted_behind_a_stale_token_are_taken_at_most_once(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, namespace: str
) -> None:
    for number in range(12):
        await lab.client.create(CONFIGMAPS, config_map(number), namespace)
    hold = proxy.rules.add(Stall(), path=MAPS_PATH, query={"continue": "."}, times=1)
    proxy.rules.add(ExpireContinue(offer_token=False), path=MAPS_PATH, times=1)
    running = asyncio.create_task(
        lab.back_up(
            store,
            client=await reach(proxy, kind=SmallPages),
            included_namespaces=[namespace],
            included_resources=["configmaps"],
        )
    )
    await hold.struck()
    await lab.client.delete(CONFIGMAPS, "map-00", namespace)
    await lab.client.create(CONFIGMAPS, config_map(99), namespace)
    hold.release()
    done = await running

    assert done.status.phase == BackupPhase.COMPLETED
    found = await items_in(store, lab, namespace)
    assert {f"configmaps/map-{number:02}" for number in (*range(1, 12), 99)} <= found


@pytest.mark.parametrize(
    "fault", [CutBeforeRequest(), server_fault(503), Stall()], ids=["cut", "503", "stall"]
)
async def test_an_api_server_that_goes_away_half_way_ends_the_backup_with_errors(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, fault: Fault
) -> None:
    proxy.rules.add(fault, skip=4)
    # Several resources wait for it, one after the other.
    client = await reach(proxy, kind=SmallPages, patience_seconds=1.5)
    async with no_longer_than(HANG_SECONDS):
        done = await lab.back_up(store, client=client)

    assert done.status.phase in (BackupPhase.PARTIALLY_FAILED, BackupPhase.FAILED)
    assert done.status.errors >= 1
    stored = await store.read_backup("b1")
    assert (stored.status.phase, stored.status.errors) == (done.status.phase, done.status.errors)
