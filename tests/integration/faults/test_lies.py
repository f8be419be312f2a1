"""False answers: something between client and API server answers some requests in its place, with success.

A login page or a broken balancer does that. When they were believed, 5 % of such answers lost 174 objects of
a restore that was Completed.
"""

import json
from collections.abc import Awaitable, Callable

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import ActAndRespond, Fault, Respond, Rewrite
from hack.cluster.proxy import FaultProxy
from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.listing_requests import PAGE_LIMIT
from pinnace.storage.backup_store import BackupStore
from tests.integration.faults.world import PAGE, Lab, SmallPages, objects_in, results_of
from tests.support.faulty_parts import Reach

StartProxy = Callable[[ControlPlane], Awaitable[FaultProxy]]

CROWD = 120
"""So many objects that some requests for them get false answers."""
PART = 0.05
CALL_SECONDS, PATIENCE_SECONDS = 30.0, 60.0
"""No false answer is slow, so these deadlines allow for a slow machine."""

JSON = {"Content-Type": "application/json"}
HTML = Respond(200, b"<!DOCTYPE html><title>Sign in</title>", {"Content-Type": "text/html"})
EMPTY_OBJECT = Respond(200, b"{}", JSON)
EMPTY = Respond(200, b"", JSON)
ANOTHER = Respond(
    200, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":200}', JSON
)
LIES: dict[str, Fault] = {
    "html": HTML,
    "empty-object": EMPTY_OBJECT,
    "empty": EMPTY,
    "another-answer": ANOTHER,
    "html-after-acting": ActAndRespond(HTML),
    "empty-object-after-acting": ActAndRespond(EMPTY_OBJECT),
}


@pytest.fixture
async def proxy(control_plane: ControlPlane, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(control_plane)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_a_restore_with_occasional_false_answers_loses_nothing(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, crowd: str, lie: Fault
) -> None:
    await lab.back_up(store, included_namespaces=[crowd])
    rule = proxy.rules.add(lie, probability=PART)
    target = lab.new_target()
    done = await lab.restore(
        store,
        target,
        client=await reach(proxy, call_seconds=CALL_SECONDS, patience_seconds=PATIENCE_SECONDS),
        source=crowd,
    )

    assert rule.hits > 0
    assert await results_of(store) == {"errors": {}, "warnings": {}}
    assert (done.status.phase, done.status.errors) == (RestorePhase.COMPLETED, 0)
    assert await objects_in(lab.client, target) == await objects_in(lab.client, crowd)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_a_backup_with_occasional_false_answers_loses_nothing(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, crowd: str, lie: Fault
) -> None:
    rule = proxy.rules.add(lie, probability=PART)
    through = await reach(
        proxy, kind=SmallPages, call_seconds=CALL_SECONDS, patience_seconds=PATIENCE_SECONDS
    )
    discovery = await Discovery.load(through)
    done = await lab.back_up(store, client=through, discovery=discovery, included_namespaces=[crowd])

    assert rule.hits > 0
    assert (done.status.phase, done.status.errors) == (BackupPhase.COMPLETED, 0)
    target = lab.new_target()
    await lab.restore(store, target, source=crowd)
    assert await objects_in(lab.client, target) == await objects_in(lab.client, crowd)


def without_a_third(body: bytes) -> bytes:
    """A list of which every third object is cut out; any other answer as it is."""
    document = json.loads(body)
    items = document.get("items")
    if not isinstance(items, list) or not document["kind"].endswith("List"):
        return body
    kept = [item for number, item in enumerate(items) if number % 3]
    return json.dumps({**document, "items": kept}).encode()


@pytest.mark.parametrize("pages", [KubeClient, SmallPages], ids=["one-page", "several-pages"])
async def test_a_backup_through_lists_with_objects_cut_out_loses_nothing(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, crowd: str, pages: type[KubeClient]
) -> None:
    limit = {"limit": f"^{PAGE if pages is SmallPages else PAGE_LIMIT}$"}
    rule = proxy.rules.add(Rewrite(without_a_third), path="/configmaps$", query=limit, times=2)
    through = await reach(proxy, kind=pages, call_seconds=CALL_SECONDS, patience_seconds=PATIENCE_SECONDS)
    discovery = await Discovery.load(through)
    done = await lab.back_up(store, client=through, discovery=discovery, included_namespaces=[crowd])

    assert rule.hits == 2
    assert (done.status.phase, done.status.errors) == (BackupPhase.COMPLETED, 0)
    target = lab.new_target()
    await lab.restore(store, target, source=crowd)
    assert await objects_in(lab.client, target) == await objects_in(lab.client, crowd)


async def test_a_backup_through_lists_that_always_lack_objects_says_which(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, crowd: str
) -> None:
    proxy.rules.add(Rewrite(without_a_third), path="/configmaps$")
    through = await reach(proxy, call_seconds=CALL_SECONDS, patience_seconds=PATIENCE_SECONDS)
    discovery = await Discovery.load(through)
    done = await lab.back_up(store, client=through, discovery=discovery, included_namespaces=[crowd])

    assert (done.status.phase, done.status.errors) == (BackupPhase.PARTIALLY_FAILED, 1)
    async with store.read_text(DownloadTargetKind.BACKUP_LOG, "b1") as stream:
        text = b"".join([chunk async for chunk in stream]).decode()
    assert f"of the {CROWD + 1} objects that the API server counts" in text


async def test_only_false_answers_are_an_error_for_each_object(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach
) -> None:
    await lab.back_up(store)
    proxy.rules.add(HTML, method="POST", path="/secrets$")
    target = lab.new_target()
    done = await lab.restore(store, target, client=await reach(proxy))

    assert done.status.phase == RestorePhase.PARTIALLY_FAILED
    errors = (await results_of(store))["errors"]["namespaces"][target]
    assert len(errors) == done.status.errors == 2
    for name in ("password", "token"):
        assert any(f"secrets/{target}/{name}" in error and "login page" in error for error in errors)
    await lab.assert_same(target, missing=["secrets/password", "secrets/token"])
