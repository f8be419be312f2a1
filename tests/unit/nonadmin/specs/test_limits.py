"""How many backups and restores one namespace may have unfinished. (docs/spec: NAC 17 A27)"""

import asyncio

import pytest

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.kube.errors import ServerFault
from pinnace.nonadmin.flows.limits import Slots, first, is_waiting
from pinnace.nonadmin.identity import owner_metadata
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.runtime.keys import Key
from tests.support.cluster.scripted_requests import ignore
from tests.unit.nonadmin.memory import (
    BACKUPS,
    RESTORES,
    SERVER,
    Service,
    conditions,
    finished,
    message,
    on_writes,
)

LIMITED = AdminSettings(max_unfinished_backups=2, max_unfinished_restores=1)
HAS_TO_WAIT = [("Accepted", "False", "TooManyUnfinishedBackups")]


def made(name: str, namespace: str = "shop", **status: str) -> JSONObject:
    marked = owner_metadata(Origin.BACKUP, name, Key(namespace, f"nab-{name}"))
    return {"metadata": {"name": name, "namespace": SERVER, **marked}, "status": status}


def test_slots_are_taken_and_freed() -> None:
    slots, freed = Slots(Origin.BACKUP), list[str]()
    slots.on_free(freed.append)
    slots.put(made("one"))
    slots.put(made("one", phase="InProgress"))
    slots.put(made("two"))
    slots.put(made("other", "blog"))
    slots.put({"metadata": {"name": "admins"}})

    assert (slots.taken("shop"), slots.taken("shop", besides="two"), slots.taken("none")) == (2, 1, 0)
    slots.put(made("one", phase="FailedValidation"))
    slots.put(made("one", phase="FailedValidation"))
    slots.remove(made("two"))
    assert (slots.taken("shop"), slots.taken("blog")) == (0, 1)
    assert freed == ["shop", "shop"]


def test_the_oldest_waiting_requests_come_first() -> None:
    waiting = [
        {"metadata": {"name": name, "namespace": "shop", "creationTimestamp": f"2030-01-01T00:00:0{second}Z"}}
        for name, second in (("c", 3), ("b", 1), ("a", 1), ("d", 9))
    ]
    assert [key.name for key in first(waiting, 3)] == ["a", "b", "c"]


async def back_up(service: Service, *names: str, namespace: str = "shop") -> None:
    for name in names:
        service.cluster.add(NON_ADMIN_BACKUPS, name, namespace, spec={"backupSpec": {}})
    await asyncio.gather(*(service.look(NON_ADMIN_BACKUPS, namespace, name) for name in names))


async def test_a_request_over_the_limit_waits_and_then_continues() -> None:
    service = Service(settings=LIMITED)
    names = [f"nab-{number}" for number in range(6)]
    await back_up(service, *names)
    await back_up(service, "other", namespace="blog")

    assert len([each for each in service.cluster.of(BACKUPS) if "shop" in each["metadata"]["name"]]) == 2
    assert len(service.cluster.of(BACKUPS)) == 3
    late = [each for each in service.cluster.of(NON_ADMIN_BACKUPS) if is_waiting(each)]
    assert len(late) == 4
    for non_admin_backup in late:
        assert (non_admin_backup["status"]["phase"], conditions(non_admin_backup)) == (
            "BackingOff",
            HAS_TO_WAIT,
        )
        assert "allows 2 unfinished backups in a namespace" in message(non_admin_backup, "Accepted")

    served = next(each for each in service.cluster.of(BACKUPS) if "shop" in each["metadata"]["name"])
    done = finished("Completed", service.cluster.clock.now())
    service.cluster.change(BACKUPS, served["metadata"]["name"], SERVER, status=done)
    await service.settle()
    waiting = [each for each in service.cluster.of(NON_ADMIN_BACKUPS) if is_waiting(each)]
    assert (len(service.cluster.of(BACKUPS)), len(waiting)) == (4, 3)


async def test_a_slot_is_kept_while_the_api_server_refuses_and_freed_with_the_request() -> None:
    service = Service(settings=AdminSettings(max_unfinished_backups=1))

    def refuse(verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("create", "backups"):
            raise ServerFault(500, reason="InternalError", message="no")

    service.cluster.before = on_writes(refuse)
    await back_up(service, "first")
    service.cluster.before = ignore
    await back_up(service, "second")
    second = service.cluster.peek(NON_ADMIN_BACKUPS, "second", "shop")
    assert conditions(second) == HAS_TO_WAIT
    assert service.cluster.of(BACKUPS) == []

    # Refused for another reason it needs none.
    service.settings = AdminSettings(max_unfinished_backups=1, backup={"ttl": "1h0m0s"})
    service.cluster.change(NON_ADMIN_BACKUPS, "first", "shop", spec={"backupSpec": {"ttl": "2h0m0s"}})
    await service.look(NON_ADMIN_BACKUPS, "shop", "first")
    await service.look(NON_ADMIN_BACKUPS, "shop", "second")
    assert len(service.cluster.of(BACKUPS)) == 1


async def test_a_request_without_a_slot_can_be_deleted() -> None:
    service = Service(settings=AdminSettings(max_unfinished_backups=1))
    await back_up(service, "first", "second")
    (late,) = [each for each in service.cluster.of(NON_ADMIN_BACKUPS) if is_waiting(each)]
    service.cluster.remove(NON_ADMIN_BACKUPS, late["metadata"]["name"], late["metadata"]["namespace"])
    await service.settle()
    assert len(service.cluster.of(NON_ADMIN_BACKUPS)) == 1


async def test_naming_ones_own_backup_frees_no_slot() -> None:
    service = Service(settings=AdminSettings(max_unfinished_backups=1))
    await back_up(service, "first")
    (backup,) = service.cluster.of(BACKUPS)
    label = {"openshift.io/oadp-nab-synced-from-nacuuid": backup["metadata"]["name"]}
    service.cluster.add(
        NON_ADMIN_BACKUPS, "forged", "shop", metadata={"labels": label}, spec={"backupSpec": {}}
    )
    await service.look(NON_ADMIN_BACKUPS, "shop", "forged")
    await back_up(service, "second")
    assert len(service.cluster.of(BACKUPS)) == 1


async def test_restores_have_a_limit_of_their_own() -> None:
    service = Service(settings=LIMITED)
    await back_up(service, "nightly")
    for name in ("one", "two"):
        service.cluster.add(NON_ADMIN_RESTORES, name, "shop", spec={"restoreSpec": {"backupName": "nightly"}})
        await service.look(NON_ADMIN_RESTORES, "shop", name)
    assert len(service.cluster.of(RESTORES)) == 1
    late = service.cluster.peek(NON_ADMIN_RESTORES, "two", "shop")
    assert conditions(late) == [("Accepted", "False", "TooManyUnfinishedRestores")]
    assert late is not None
    assert is_waiting(late)


@pytest.mark.parametrize("limit", [0, 5])
async def test_without_a_limit_no_request_waits(limit: int) -> None:
    service = Service(settings=AdminSettings(max_unfinished_backups=limit))
    await back_up(service, *(f"nab-{number}" for number in range(5)))
    assert len(service.cluster.of(BACKUPS)) == 5
