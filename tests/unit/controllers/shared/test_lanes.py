"""Which keys wait behind which: by tenant, by location, and within which shares of the workers."""

from collections import Counter

import pytest

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.controllers.shared.lanes import EXTRA_RUNS, Lanes
from pinnace.runtime.cache import ObjectCache
from pinnace.runtime.keys import Key
from pinnace.runtime.queue import RateLimitedQueue
from tests.unit.controllers.fakes import key

NAMESPACE = "velero"


def made(
    name: str, spec: JSONObject | None = None, *, origin: Origin | None = None, tenant: str = ""
) -> JSONObject:
    notes = {origin.namespace_annotation: tenant} if origin else {}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "annotations": notes}, "spec": spec or {}}


class Site:
    """Caches of what a server knows, and the lanes by them."""

    def __init__(self) -> None:
        self.locations = ObjectCache()
        self.backups = ObjectCache()
        self.restores = ObjectCache()
        self.requests = ObjectCache()
        self.lanes = Lanes(NAMESPACE, self.locations, default_location="default")

    def location(self, name: str, *, tenant: str = "", default: bool = False) -> None:
        origin = Origin.LOCATION if tenant else None
        self.locations.put(made(name, {"default": default}, origin=origin, tenant=tenant))

    def backup(self, name: str, location: str = "", *, tenant: str = "") -> Key:
        origin = Origin.BACKUP if tenant else None
        self.backups.put(made(name, {"storageLocation": location}, origin=origin, tenant=tenant))
        return key(name)


@pytest.fixture
def site() -> Site:
    return Site()


async def taken(queue: RateLimitedQueue[Key], count: int) -> list[str]:
    return [(await queue.get()).name for _ in range(count)]


async def test_backups_of_one_location_leave_a_worker_to_the_others(site: Site) -> None:
    for name in ("stuck", "fine"):
        site.location(name)
    queue = RateLimitedQueue(lane_of=site.lanes.of_backups(site.backups, 4))
    for number in range(70):
        queue.add(site.backup(f"stuck-{number}", "stuck"))
    assert await taken(queue, 3) == ["stuck-0", "stuck-1", "stuck-2"]
    queue.add(site.backup("fine-1", "fine"))
    assert await taken(queue, 1) == ["fine-1"]


async def test_with_one_worker_locations_are_served_round_robin(site: Site) -> None:
    for name in ("stuck", "fine"):
        site.location(name)
    queue = RateLimitedQueue(lane_of=site.lanes.of_backups(site.backups, 1))
    for number in range(70):
        queue.add(site.backup(f"stuck-{number}", "stuck"))
    queue.add(site.backup("fine-1", "fine"))
    order = []
    for _ in range(3):
        order += await taken(queue, 1)
        queue.done(key(order[-1]))
    assert order == ["stuck-0", "fine-1", "stuck-1"]


async def test_the_only_location_has_all_workers(site: Site) -> None:
    site.location("default")
    queue = RateLimitedQueue(lane_of=site.lanes.of_backups(site.backups, 4))
    for number in range(4):
        queue.add(site.backup(f"b-{number}", "default"))
    assert len(await taken(queue, 4)) == 4


async def test_a_tenant_with_many_locations_is_served_as_often_as_any_other(site: Site) -> None:
    queue = RateLimitedQueue(lane_of=site.lanes.of_backups(site.backups, 1))
    for number in range(10):
        site.location(f"evil-{number}", tenant="evil")
        queue.add(site.backup(f"evil-{number}", f"evil-{number}", tenant="evil"))
    site.location("shop", tenant="shop")
    queue.add(site.backup("shop-1", "shop", tenant="shop"))
    queue.add(site.backup("admins"))
    order = []
    for _ in range(4):
        order += await taken(queue, 1)
        queue.done(key(order[-1]))
    assert order == ["evil-0", "shop-1", "admins", "evil-1"]


async def test_tenants_together_leave_a_worker_to_the_administrator(site: Site) -> None:
    queue = RateLimitedQueue(lane_of=site.lanes.of_backups(site.backups, 4))
    site.location("default", default=True)
    for number in range(9):
        site.location(f"l-{number}", tenant=f"tenant-{number // 3}")
        queue.add(site.backup(f"t-{number}", f"l-{number}"))
    assert await taken(queue, 3) == ["t-0", "t-3", "t-6"]
    queue.add(site.backup("admins"))
    assert await taken(queue, 1) == ["admins"]
    queue.done(key("t-3"))
    assert await taken(queue, 1) == ["t-4"]


async def test_backups_that_only_upload_leave_the_only_worker_to_other_locations(site: Site) -> None:
    for name in ("stuck", "fine"):
        site.location(name)
    queue = RateLimitedQueue(lane_of=site.lanes.of_backups(site.backups, 1))
    for number in range(70):
        queue.add(site.backup(f"stuck-{number}", "stuck"))
    for number in range(2):
        assert await taken(queue, 1) == [f"stuck-{number}"]
        queue.release(key(f"stuck-{number}"))
    queue.add(site.backup("fine-1", "fine"))
    assert await taken(queue, 1) == ["fine-1"]


async def test_tenants_whose_backups_only_upload_leave_room_for_those_of_the_administrator(
    site: Site,
) -> None:
    site.location("default", default=True)
    queue = RateLimitedQueue(lane_of=site.lanes.of_backups(site.backups, 1))
    workers = 1 + EXTRA_RUNS
    for number in range(3 * workers):
        site.location(f"l-{number}", tenant=f"tenant-{number // 3}")
        queue.add(site.backup(f"t-{number}", f"l-{number}"))
    under_way = []
    for _ in range(workers * 3 // 4):
        under_way += await taken(queue, 1)
        queue.release(key(under_way[-1]))
    assert max(Counter(int(name[2:]) // 3 for name in under_way).values()) <= 2
    queue.add(site.backup("admins"))
    assert await taken(queue, 1) == ["admins"]


@pytest.mark.parametrize(
    ("kind", "target"), [("BackupLog", "b-1"), ("RestoreLog", "r-1")], ids=["of a backup", "of a restore"]
)
def test_a_download_waits_with_the_location_that_holds_the_file(site: Site, kind: str, target: str) -> None:
    site.location("far", tenant="shop")
    site.backup("b-1", "far")
    site.restores.put(made("r-1", {"backupName": "b-1"}))
    site.requests.put(made("d", {"target": {"kind": kind, "name": target}}))
    lane = site.lanes.of_downloads(site.requests, site.backups, site.restores, 4)(key("d"))
    assert (lane.party, lane.name) == ("shop", "far")


def test_restores_and_deletions_wait_with_the_location_of_their_backup(site: Site) -> None:
    site.location("far")
    site.location("default")
    site.backup("b-1", "far")
    site.restores.put(made("r-1", {"backupName": "b-1"}, origin=Origin.RESTORE, tenant="shop"))
    site.requests.put(made("d-1", {"backupName": "b-1"}))
    restore = site.lanes.of_restores(site.restores, site.backups, 4)(key("r-1"))
    assert (restore.party, restore.name) == ("shop", "far")
    deletion = site.lanes.of_deletions(site.requests, site.backups, 4)(key("d-1"))
    assert (deletion.party, deletion.name, deletion.shares[0].limit) == ("", "far", 1)


def test_what_is_not_known_waits_with_the_default_location(site: Site) -> None:
    site.location("marked", default=True)
    assert site.lanes.of_backups(site.backups, 1)(key("absent")).name == "marked"
    assert site.lanes.of_restores(site.restores, site.backups, 1)(key("absent")).name == "marked"
