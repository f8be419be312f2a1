"""When locations are validated, and what their status says."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pinnace.api.labels import VALIDATION_REQUESTED
from pinnace.api.values.durations import Duration
from pinnace.controllers import storage_location
from pinnace.controllers.storage_location import StorageLocationReconciler, effective_frequency, is_due
from pinnace.runtime.controller import DONE, Result
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StoreConfigError
from tests.support.clock import START
from tests.unit.controllers.fakes import World, key

MINUTE = Duration.minutes(1)
ZERO = Duration()


@pytest.mark.spec("CTL-058", "STO-010", "API-017")
@pytest.mark.parametrize(
    ("own", "server", "last_seconds_ago", "due"),
    [
        (ZERO, MINUTE, None, True),
        (ZERO, MINUTE, 0, False),
        (Duration.hours(1), MINUTE, None, True),
        (ZERO, MINUTE, 120, False),
        (None, MINUTE, 59, False),
        (None, MINUTE, 60, True),
        (None, ZERO, 120, False),
        (None, ZERO, None, True),
        (Duration.seconds(1), MINUTE, 1, True),
        (Duration.seconds(1), MINUTE, 2, True),
        (Duration.seconds(1), MINUTE, 0, False),
        (Duration.minutes(10), MINUTE, 300, False),
        (Duration.minutes(10), MINUTE, 660, True),
        (Duration.seconds(-1), MINUTE, 59, False),
        (Duration.seconds(-1), MINUTE, 61, True),
    ],
)
def test_when_a_location_is_due(
    own: Duration | None, server: Duration, last_seconds_ago: int | None, due: bool
) -> None:
    last: datetime | None = None
    if last_seconds_ago is not None:
        last = START - timedelta(seconds=last_seconds_ago)

    assert is_due(last, effective_frequency(own, server), START) is due


def reconciler(world: World, *, frequency: Duration = MINUTE) -> StorageLocationReconciler:
    return StorageLocationReconciler(
        world.scope, world.locations, default_location="default", validation_frequency=frequency
    )


def status(world: World, name: str = "default") -> dict[str, object]:
    return world.cluster.status("backupstoragelocations", name)


@pytest.mark.spec("BEY-068")
async def test_of_several_default_locations_the_newest_stays_one(world: World) -> None:
    for hour, name in enumerate(("b", "c", "a")):
        world.add_location(name, default=True)
        metadata = world.cluster.stored("backupstoragelocations", name)["metadata"]
        metadata["creationTimestamp"] = f"2021-08-1{2 - hour}T00:00:00Z"

    await reconciler(world).reconcile(key("c"))

    marked = {name: world.cluster.stored("backupstoragelocations", name)["spec"]["default"] for name in "abc"}
    assert marked == {"a": False, "b": True, "c": False}
    assert status(world, "c")["phase"] == "Available"


@pytest.mark.spec("CTL-059", "BEY-001")
async def test_a_valid_location_is_available_until_it_no_longer_is(world: World, tmp_path: Path) -> None:
    world.add_location(default=True)
    controller = reconciler(world)

    assert await controller.reconcile(key("default")) == Result.after(60.0)
    assert status(world) == {"phase": "Available", "lastValidationTime": "2021-08-11T21:43:26Z"}

    (tmp_path / "bucket-default/foreign").mkdir(parents=True)
    (tmp_path / "bucket-default/foreign/file").touch()
    world.clock.turn(60)
    await controller.reconcile(key("default"))
    assert status(world) == {
        "phase": "Unavailable",
        "lastValidationTime": "2021-08-11T21:44:26Z",
        "message": "Backup store contains invalid top-level directories: [foreign]",
    }

    (tmp_path / "bucket-default/foreign/file").unlink()
    world.clock.turn(60)
    await controller.reconcile(key("default"))
    assert status(world) == {"phase": "Available", "lastValidationTime": "2021-08-11T21:45:26Z"}


@pytest.mark.spec("API-035")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"credential": {"name": "absent", "key": "cloud"}},
            'unable to get credentials: unable to get key for secret: Secret "absent" not found in',
        ),
        ({"provider": "nobody"}, "unable to locate ObjectStore plugin named velero.io/nobody"),
        ({"validationFrequency": "often"}, "spec.validationFrequency"),
    ],
    ids=["no Secret", "no provider", "unreadable"],
)
async def test_a_location_that_cannot_be_opened_says_why(
    world: World, spec: dict[str, object], message: str
) -> None:
    world.add_location("broken", **spec)
    world.add_location("good")
    controller = reconciler(world)

    for name in ("broken", "good"):
        await controller.reconcile(key(name))

    assert status(world, "broken")["phase"] == "Unavailable"
    assert message in str(status(world, "broken")["message"])
    assert status(world, "broken")["lastValidationTime"] == "2021-08-11T21:43:26Z"
    assert status(world, "good")["phase"] == "Available"


async def test_a_location_is_looked_at_again_exactly_when_it_is_due(world: World) -> None:
    world.add_location()
    controller = reconciler(world)
    await controller.reconcile(key("default"))
    writes = len(world.cluster.writes())

    world.clock.turn(20)
    assert await controller.reconcile(key("default")) == Result.after(40.0)
    assert len(world.cluster.writes()) == writes


@pytest.mark.parametrize("frequency", ["1ns", "999ms"])
@pytest.mark.parametrize("of_server", [False, True], ids=["of the location", "of the server"])
async def test_a_location_is_validated_once_a_second_at_most(
    world: World, frequency: str, of_server: bool
) -> None:
    world.add_location(default=True, **({} if of_server else {"validationFrequency": frequency}))
    server = Duration.parse(frequency) if of_server else MINUTE
    controller = reconciler(world, frequency=server)

    assert await controller.reconcile(key("default")) == Result.after(1.0)
    writes = len(world.cluster.writes())
    assert await controller.reconcile(key("default")) == Result.after(1.0)
    assert len(world.cluster.writes()) == writes


@pytest.mark.found("L12")
async def test_a_location_validated_once_for_all_is_left_alone_unless_it_is_edited(world: World) -> None:
    obj = world.add_location(default=True, validationFrequency="0s")
    controller = reconciler(world)

    assert await controller.reconcile(key("default")) == DONE
    before = status(world)
    world.clock.turn(3600)
    world.metrics.calls.clear()
    assert await reconciler(world).reconcile(key("default")) == DONE
    assert status(world) == before
    assert world.metrics.calls == [("location_status", "default", True)]

    edited = world.cluster.stored("backupstoragelocations", "default")
    edited["spec"] = {**obj["spec"], "provider": "nobody"}
    edited["metadata"]["generation"] = 2
    await controller.reconcile(key("default"))
    assert status(world)["phase"] == "Unavailable"


@pytest.mark.spec("API-018", "CTL-059")
@pytest.mark.parametrize("other_is_default", [False, True])
async def test_the_servers_default_location_is_marked_when_none_is(
    world: World, other_is_default: bool
) -> None:
    world.add_location()
    world.add_location("other", default=other_is_default)

    for name in ("default", "other"):
        await reconciler(world).reconcile(key(name))

    marked = {
        obj["metadata"]["name"]
        for obj in world.cluster.of("backupstoragelocations")
        if obj["spec"].get("default")
    }
    assert marked == ({"other"} if other_is_default else {"default"})


async def test_a_deleted_location_is_forgotten(world: World) -> None:
    world.add_location()
    controller = reconciler(world)
    await controller.reconcile(key("default"))
    world.cluster.objects.clear()

    assert await controller.reconcile(key("default")) == DONE


async def test_a_store_that_does_not_answer_delays_no_other_location(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_store: BackupStore) -> None:
        await asyncio.Event().wait()

    world.add_location()
    monkeypatch.setattr(BackupStore, "validate", never)
    monkeypatch.setattr(storage_location, "VALIDATION_SECONDS", 0.01)

    await reconciler(world).reconcile(key("default"))

    assert status(world)["phase"] == "Unavailable"
    assert status(world)["message"] == "no answer within 0.01 seconds"


async def test_our_own_writes_that_raise_the_generation_do_not_make_a_location_due(
    world: World,
) -> None:
    """As on definitions without a status subresource: those of Velero 1.18."""
    world.cluster.with_status.discard("backupstoragelocations")
    world.add_location(default=True)
    controller = reconciler(world)
    await controller.reconcile(key("default"))
    world.cluster.stored("backupstoragelocations", "default")["metadata"]["generation"] = 9
    writes = len(world.cluster.writes())

    assert await controller.reconcile(key("default")) == Result.after(60.0)
    assert len(world.cluster.writes()) == writes
    assert status(world)["phase"] == "Available"


@pytest.mark.spec("BEY-067")
async def test_a_location_whose_ca_bundle_is_in_no_secret_is_unavailable(world: World) -> None:
    reference = {"name": "ca", "key": "crt"}
    world.add_location(default=True, objectStorage={"bucket": "bucket-default", "caCertRef": reference})

    await reconciler(world).reconcile(key("default"))

    assert status(world)["phase"] == "Unavailable"
    assert 'caCertRef: unable to get key for secret: Secret "ca" not found' in str(status(world)["message"])
    with pytest.raises(StoreConfigError, match="caCertRef"):
        await world.locations.acquire("default")


@pytest.mark.spec("AFT-166")
async def test_a_credentials_file_that_a_location_names_is_ignored_and_said_to_be(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    path = {"path": str(world.folder), "credentialsFile": "/etc/passwd"}
    world.add_location("named", config=path)
    world.add_location("broken", config=path, provider="nobody")
    controller = reconciler(world)

    for name in ("named", "broken"):
        await controller.reconcile(key(name))

    assert status(world, "named")["phase"] == "Available"
    assert "(config.credentialsFile is ignored" in str(status(world, "broken")["message"])
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.startswith("config.credentialsFile is ignored") for text in told] == [True, True]


@pytest.mark.found("op-74", "op-75")
@pytest.mark.parametrize("frequency", ["1m", "0s"])
async def test_a_location_is_looked_at_on_request_and_the_request_goes_with_the_answer(
    world: World, tmp_path: Path, frequency: str
) -> None:
    world.add_location(default=True, validationFrequency=frequency)
    controller = reconciler(world)
    await controller.reconcile(key("default"))
    (tmp_path / "bucket-default/foreign").mkdir(parents=True)
    (tmp_path / "bucket-default/foreign/file").touch()
    metadata = world.cluster.stored("backupstoragelocations", "default")["metadata"]
    metadata["annotations"] = {VALIDATION_REQUESTED: "now", "mine": "kept"}

    await controller.reconcile(key("default"))

    assert status(world)["phase"] == "Unavailable"
    metadata = world.cluster.stored("backupstoragelocations", "default")["metadata"]
    assert metadata["annotations"] == {"mine": "kept"}


@pytest.mark.found("op-74")
async def test_a_newer_request_is_not_taken_for_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add_location(default=True)
    controller = reconciler(world)
    obj = world.cluster.stored("backupstoragelocations", "default")
    obj["metadata"]["annotations"] = {VALIDATION_REQUESTED: "first"}

    async def asked_again(_store: BackupStore) -> None:
        found = world.cluster.stored("backupstoragelocations", "default")
        found["metadata"]["annotations"] = {VALIDATION_REQUESTED: "second"}

    monkeypatch.setattr(BackupStore, "validate", asked_again)
    await controller.reconcile(key("default"))

    metadata = world.cluster.stored("backupstoragelocations", "default")["metadata"]
    assert metadata["annotations"] == {VALIDATION_REQUESTED: "second"}
