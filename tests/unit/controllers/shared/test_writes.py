"""Claims and terminal patches under conflicts and faults."""

import pytest

from pinnace.api.codec import decode
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.controllers.shared.writes import (
    claim_patch,
    delete_if_there,
    end_patch,
    patch_progress,
    patch_status,
)
from pinnace.kube.errors import Conflict, Forbidden, Invalid, NotFound, ServerFault, TooManyRequests
from pinnace.kube.resources import BACKUPS
from pinnace.runtime.backoff import RetryDelay
from pinnace.runtime.durable import Storing, store_until_stored
from tests.unit.controllers.fakes import BROKEN, LOCATIONS, World, fail_always, key

AT_ONCE = RetryDelay(base_seconds=0.0)


def backup_of(world: World, name: str = "b1") -> Backup:
    return decode(Backup, world.cluster.stored("backups", name))


def in_phase(world: World, phase: BackupPhase) -> Backup:
    after = backup_of(world)
    after.status.phase = phase
    return after


async def finish(world: World, before: Backup, after: Backup) -> Storing:
    patch = end_patch(before, after)
    return await store_until_stored(world.cluster.client, BACKUPS, key("b1"), patch, delay=AT_ONCE)


async def test_claim_fails_when_the_object_changed_since_it_was_read(world: World) -> None:
    world.cluster.add("backups", "b1", spec={})
    before = backup_of(world)
    await world.cluster.client.patch(BACKUPS, "b1", {"metadata": {"labels": {"a": "b"}}}, "velero")

    patch = claim_patch(before, in_phase(world, BackupPhase.IN_PROGRESS))
    with pytest.raises(Conflict):
        await world.cluster.client.patch(BACKUPS, "b1", patch, "velero")

    assert world.cluster.status("backups", "b1") == {}


async def test_unknown_fields_survive_every_patch(world: World) -> None:
    world.cluster.add("backups", "b1", spec={"ofTheFuture": 1}, status={"alsoNew": {"x": 2}})
    before = backup_of(world)

    await finish(world, before, in_phase(world, BackupPhase.COMPLETED))

    stored = world.cluster.stored("backups", "b1")
    assert stored["spec"] == {"ofTheFuture": 1}
    assert stored["status"] == {"alsoNew": {"x": 2}, "phase": "Completed"}


@pytest.mark.parametrize(
    "error",
    [BROKEN, ServerFault(500, message="boom"), TooManyRequests(429, message="slow down")],
    ids=["cut", "500", "429"],
)
async def test_terminal_state_is_offered_until_the_api_server_takes_it(
    world: World, error: Exception
) -> None:
    world.cluster.add("backups", "b1", spec={})
    failures = [error] * 5

    def fail(*_call: str) -> None:
        if failures:
            raise failures.pop()

    world.cluster.before = fail
    await finish(world, backup_of(world), in_phase(world, BackupPhase.COMPLETED))

    assert world.cluster.status("backups", "b1") == {"phase": "Completed"}


async def test_a_refusal_of_the_terminal_state_is_reported_at_once(world: World) -> None:
    world.cluster.add("backups", "b1", spec={})
    world.cluster.before = fail_always("patch", error=Forbidden(403, reason="Forbidden", message="no"))

    ended = in_phase(world, BackupPhase.COMPLETED)
    assert await finish(world, backup_of(world), ended) is Storing.REFUSED

    assert world.cluster.writes() == [("patch", "backups", "b1")]


async def test_terminal_state_of_a_deleted_object_is_dropped(world: World) -> None:
    world.cluster.add("backups", "b1", spec={})
    before, after = backup_of(world), in_phase(world, BackupPhase.COMPLETED)
    world.cluster.objects.clear()

    await finish(world, before, after)

    assert world.cluster.objects == {}


async def test_patches_of_a_run_never_hit_what_took_its_name(world: World) -> None:
    world.cluster.add("backups", "b1", spec={})
    before, after = backup_of(world), in_phase(world, BackupPhase.COMPLETED)
    world.cluster.stored("backups", "b1")["metadata"]["uid"] = "of its successor"

    with pytest.raises(Invalid):
        await patch_progress(world.cluster.client, BACKUPS, before, {"progress": {"totalItems": 2}})
    await finish(world, before, after)

    assert world.cluster.status("backups", "b1") == {}


async def test_progress_survives_the_terminal_patch(world: World) -> None:
    world.cluster.add("backups", "b1", spec={})
    before, after = backup_of(world), in_phase(world, BackupPhase.COMPLETED)

    await patch_progress(world.cluster.client, BACKUPS, before, {"progress": {"totalItems": 2}})
    await finish(world, before, after)

    assert world.cluster.status("backups", "b1") == {"phase": "Completed", "progress": {"totalItems": 2}}


async def test_a_run_that_has_ended_does_nothing_any_more(world: World) -> None:
    world.cluster.add("backups", "b1", spec={})
    before, after = backup_of(world), in_phase(world, BackupPhase.COMPLETED)

    await patch_progress(world.cluster.client, BACKUPS, before, {"activity": {"hooks": ["shop/db freeze"]}})
    await finish(world, before, after)

    assert world.cluster.status("backups", "b1") == {"phase": "Completed"}


async def test_deleting_what_is_gone_succeeds(world: World) -> None:
    world.cluster.add("backups", "b1", spec={})

    await delete_if_there(world.cluster.client, BACKUPS, key("other"))
    with pytest.raises(Conflict):
        await delete_if_there(world.cluster.client, BACKUPS, key("b1"), uid="of its predecessor")
    await delete_if_there(world.cluster.client, BACKUPS, key("b1"), uid="uid-b1")

    assert world.cluster.objects == {}


BARE = "backupstoragelocations"


async def test_a_status_is_patched_on_the_main_resource_where_the_definition_has_no_status_subresource(
    world: World,
) -> None:
    world.cluster.with_status.discard(BARE)
    world.cluster.add(BARE, "default", spec={"provider": "aws"})

    for phase in ("Available", "Unavailable"):
        await patch_status(world.scope, LOCATIONS, key("default"), {"phase": phase, "message": None})
        assert world.cluster.status(BARE, "default") == {"phase": phase}

    # Once found out, it is remembered.
    assert [call for call in world.cluster.calls if call[0] == "patch"] == [("patch", BARE, "default")] * 3


async def test_a_status_goes_to_the_subresource_again_once_the_definition_has_one(
    world: World,
) -> None:
    world.cluster.with_status.discard(BARE)
    world.cluster.add(BARE, "default", spec={"provider": "aws"})
    await patch_status(world.scope, LOCATIONS, key("default"), {"phase": "Available"})

    world.cluster.with_status.add(BARE)
    await patch_status(world.scope, LOCATIONS, key("default"), {"phase": "Unavailable"})

    assert world.cluster.status(BARE, "default") == {"phase": "Unavailable"}
    assert not world.scope.without_status


async def test_the_status_of_an_object_that_is_gone_is_not_found_with_and_without_a_subresource(
    world: World,
) -> None:
    for served in (True, False):
        if not served:
            world.cluster.with_status.discard(BARE)
        with pytest.raises(NotFound):
            await patch_status(world.scope, LOCATIONS, key("absent"), {"phase": "Available"})
