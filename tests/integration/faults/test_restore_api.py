"""Restores into an API server that throttles, fails, stalls, or acts without its answer arriving."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import (
    CutBeforeRequest,
    CutBody,
    DropResponse,
    Fault,
    Stall,
    api_error,
    server_fault,
    too_many_requests,
)
from hack.cluster.proxy import FaultProxy
from pinnace.api.phases import RestorePhase
from pinnace.storage.backup_store import BackupStore
from tests.integration.faults.world import MAPS, Lab, no_longer_than, results_of
from tests.support.faulty_parts import Reach

StartProxy = Callable[[ControlPlane], Awaitable[FaultProxy]]

MAPS_PATH = "/configmaps$"
HANG_SECONDS = 150.0


@pytest.fixture
async def proxy(control_plane: ControlPlane, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(control_plane)


PASSING: Sequence[tuple[str, Fault, int]] = [
    ("throttled", too_many_requests(retry_after_seconds=1), 2),
    ("throttled-without-a-time", too_many_requests(retry_after_seconds=None), 6),
    ("500", server_fault(500), 3),
    ("503", server_fault(503), 3),
    ("cut-before", CutBeforeRequest(), 3),
    ("answer-dropped", DropResponse(), 3),
    ("cut-in-the-answer", CutBody(100), 3),
    ("stalled-before", Stall(), 3),
    ("stalled-answer", Stall(after_bytes=0), 3),
]

CREATES = {
    "namespace": "/namespaces$",
    "accounts": "/serviceaccounts$",
    "maps": MAPS_PATH,
    "pods": "/pods$",
}


@pytest.mark.parametrize(
    ("fault", "times"), [case[1:] for case in PASSING], ids=[case[0] for case in PASSING]
)
async def test_a_create_fault_that_passes_costs_nothing(
    lab: Lab, stored: BackupStore, proxy: FaultProxy, reach: Reach, fault: Fault, times: int
) -> None:
    """A create that was carried out twice counts once: an object with our own labels is ours."""
    rules = [
        proxy.rules.add(fault, method="POST", path=path, times=times if path == MAPS_PATH else 1)
        for path in CREATES.values()
    ]
    target = lab.new_target()
    async with no_longer_than(HANG_SECONDS):
        done = await lab.restore(stored, target, client=await reach(proxy))

    assert [rule.hits for rule in rules] == [1, 1, times, 1]
    assert await results_of(stored) == {"errors": {}, "warnings": {}}
    assert (done.status.phase, done.status.errors, done.status.warnings) == (RestorePhase.COMPLETED, 0, 0)
    await lab.assert_same(target)


LASTING: Sequence[tuple[str, Fault]] = [
    ("throttled", too_many_requests(retry_after_seconds=None)),
    ("told-to-wait-for-ever", too_many_requests(retry_after_seconds=86400)),
    ("500", server_fault(500)),
    ("503", server_fault(503)),
    ("forbidden", api_error(403, "Forbidden", "configmaps is forbidden")),
    ("cut-before", CutBeforeRequest()),
    ("stalled", Stall()),
]


@pytest.mark.parametrize("fault", [case[1] for case in LASTING], ids=[case[0] for case in LASTING])
async def test_a_create_fault_that_lasts_is_one_error_an_item(
    lab: Lab, stored: BackupStore, proxy: FaultProxy, reach: Reach, fault: Fault
) -> None:
    proxy.rules.add(fault, method="POST", path=MAPS_PATH)
    target = lab.new_target()
    async with no_longer_than(HANG_SECONDS):
        done = await lab.restore(stored, target, client=await reach(proxy))

    # The cluster itself makes kube-root-ca.crt; it is an error only if the restore was quicker.
    assert done.status.phase == RestorePhase.PARTIALLY_FAILED
    results = await results_of(stored)
    assert list(results["errors"]["namespaces"]) == [target]
    messages = results["errors"]["namespaces"][target]
    assert len([text for text in messages if "kube-root-ca.crt" not in text]) == MAPS
    assert len(messages) == done.status.errors <= MAPS + 1
    await lab.assert_same(target, missing=[f"configmaps/map-{number:02}" for number in range(MAPS)])
