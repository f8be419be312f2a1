"""What is said of a location before a worker is spent on it, and what it costs to know."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin.names import Origin
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationStatus
from pinnace.backup.request import ServerDefaults
from pinnace.controllers.backup import BackupWork
from pinnace.controllers.restore import RestoreWork
from pinnace.controllers.shared import availability
from pinnace.controllers.shared.availability import Availability
from pinnace.controllers.shared.locations import LocationStores
from pinnace.kube.discovery import Discovery
from pinnace.restore.request import RestoreSettings
from pinnace.storage.errors import StoreUnavailable
from tests.support.clock import FakeClock
from tests.support.cluster.discovered import documented_discovery
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.tasks import settled
from tests.unit.controllers.fakes import World


class Stores:
    """Counts looks, and answers them as told.

    Attributes:
        problem: what a look finds; None for a store that never answers.
    """

    def __init__(self) -> None:
        self.looks = 0
        self.problem: str | None = "connection refused"

    @asynccontextmanager
    async def open_location(self, _location: BackupStorageLocation) -> AsyncIterator["Stores"]:
        yield self

    async def validate(self) -> None:
        self.looks += 1
        await asyncio.sleep(0)
        if self.problem is None:
            await asyncio.Event().wait()
        if self.problem:
            raise StoreUnavailable(self.problem)


def location(phase: str, *, tenant: str = "", name: str = "far") -> BackupStorageLocation:
    notes = {Origin.LOCATION.namespace_annotation: tenant} if tenant else {}
    return BackupStorageLocation(
        metadata=ObjectMeta(name=name, annotations=notes), status=BackupStorageLocationStatus(phase=phase)
    )


@pytest.fixture
def stores() -> Stores:
    return Stores()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def known(stores: Stores, clock: FakeClock) -> Availability:
    return Availability(cast("LocationStores", stores), clock=clock)


@pytest.mark.parametrize("phase", ["Available", ""])
async def test_an_available_location_without_failures_is_not_looked_at(
    known: Availability, stores: Stores, phase: str
) -> None:
    assert await known.problem(location(phase)) == ""
    assert stores.looks == 0


async def test_seventy_backups_to_an_unavailable_location_cost_one_look(
    known: Availability, stores: Stores, clock: FakeClock
) -> None:
    found = await asyncio.gather(*(known.problem(location("Unavailable")) for _ in range(70)))
    assert set(found) == {"connection refused"}
    assert stores.looks == 1
    clock.turn(availability.BELIEVED_SECONDS)
    stores.problem = ""
    assert await known.problem(location("Unavailable")) == ""
    assert stores.looks == 2


async def test_a_location_that_came_back_since_its_validation_is_used(
    known: Availability, stores: Stores
) -> None:
    stores.problem = ""
    assert await known.problem(location("Unavailable")) == ""


async def test_an_edited_location_is_looked_at_again(known: Availability, stores: Stores) -> None:
    assert await known.problem(location("Unavailable"))
    edited = location("Unavailable")
    edited.spec.provider = "another"
    stores.problem = ""
    assert await known.problem(edited) == ""


@pytest.mark.found("E-F2")
async def test_a_location_that_was_created_again_is_looked_at_again(
    known: Availability, stores: Stores
) -> None:
    former, again = location("Unavailable"), location("Unavailable")
    former.metadata.uid, again.metadata.uid = "first", "second"
    assert await known.problem(former)
    stores.problem = ""
    assert await known.problem(again) == ""


async def test_a_store_that_never_answers_is_given_up(
    known: Availability, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "LOOK_SECONDS", 0.01)
    stores.problem = None
    assert await known.problem(location("Unavailable")) == "it did not answer within 0.01 seconds"


async def test_a_tenants_location_is_always_looked_at(known: Availability, stores: Stores) -> None:
    stores.problem = ""
    for _ in range(2):
        assert await known.problem(location("Available", tenant="shop")) == ""
    assert stores.looks == 2


async def test_after_a_failure_the_next_work_looks_first(
    known: Availability, stores: Stores, clock: FakeClock
) -> None:
    known.worked("far", well=False)
    assert await known.problem(location("Available")) == "connection refused"
    known.worked("far", well=True)
    assert await known.problem(location("Available")) == ""
    known.worked("far", well=False)
    clock.turn(availability.SUSPECT_SECONDS)
    assert await known.problem(location("Available")) == ""
    assert stores.looks == 1


async def test_what_is_known_of_deleted_locations_is_forgotten(known: Availability, clock: FakeClock) -> None:
    for number in range(50):
        await known.problem(location("Unavailable", name=f"gone-{number}"))
        clock.turn(availability.BELIEVED_SECONDS)
    await settled()
    assert len(known._known) == 1


# --- In front of backups and restores -------------------------------------------------------------------


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(*_args: object, **_kwargs: object) -> Discovery:
        return documented_discovery((), server_version=ScriptedCluster.server_version)

    monkeypatch.setattr(Discovery, "load", load)


def unavailable(world: World) -> None:
    world.add_location(config={"path": str(world.folder / "not-there")})
    world.cluster.stored("backupstoragelocations", "default")["status"] = {"phase": "Unavailable"}


@pytest.mark.usefixtures("served")
async def test_a_backup_to_an_unavailable_location_is_refused_with_the_reason(world: World) -> None:
    unavailable(world)
    work = BackupWork(world.scope, world.locations, defaults=ServerDefaults())
    plan = await work.plan(
        Backup(metadata=ObjectMeta(name="b1"), spec=BackupSpec(storage_location="default"))
    )
    assert plan.execute is None
    assert plan.begun.status.phase == "FailedValidation"
    assert plan.begun.status.start_timestamp is None
    [error] = plan.begun.status.validation_errors
    velero, _, reason = error.partition("status. ")
    assert velero == "backup can't be created because BackupStorageLocation default is in Unavailable "
    assert "not-there" in reason


@pytest.mark.usefixtures("served")
async def test_a_restore_from_an_unavailable_location_is_refused_with_the_reason(world: World) -> None:
    unavailable(world)
    world.cluster.add("backups", "b1", spec={"storageLocation": "default"}, status={"phase": "Completed"})
    work = RestoreWork(world.scope, world.locations, options=RestoreSettings())
    plan = await work.plan(Restore(metadata=ObjectMeta(name="r1"), spec=RestoreSpec(backup_name="b1")))
    assert plan.execute is None
    assert plan.begun.status.phase == "FailedValidation"
    assert (
        "BackupStorageLocation default is in Unavailable status. " in plan.begun.status.validation_errors[0]
    )
    assert "not-there" in plan.begun.status.validation_errors[0]
