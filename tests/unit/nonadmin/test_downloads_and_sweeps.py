"""Downloads, the collector and the synchronizer. (docs/spec: NAC 13, 14, 15)"""

from datetime import timedelta

import pytest

from pinnace.api.labels import KEY_FILES
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import format_time
from pinnace.kube.errors import Invalid
from pinnace.kube.resources import NAMESPACES, SECRETS, APIResource
from pinnace.nonadmin.collector import KEY, OrphanSweeper
from pinnace.nonadmin.identity import owner_metadata
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.synchronizer import Synchronizer
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.keys import Key
from tests.unit.nonadmin.memory import (
    BACKUPS,
    DOWNLOADS,
    LOCATIONS,
    RESTORES,
    SERVER,
    Service,
    conditions,
    finished,
    on_writes,
)

SYNCED = "openshift.io/oadp-nab-synced-from-nacuuid"


def own_location(service: Service, tenant: str = "shop", unique_id: str = "shop-mine-id") -> None:
    service.cluster.add(NON_ADMIN_LOCATIONS, "mine", tenant, spec={}, status={"phase": "Created"})
    service.cluster.change(
        NON_ADMIN_LOCATIONS,
        "mine",
        tenant,
        status={"phase": "Created", "veleroBackupStorageLocation": {"nacuuid": unique_id, "name": unique_id}},
    )
    marked = owner_metadata(Origin.LOCATION, unique_id, Key(tenant, "mine"))
    service.cluster.add(LOCATIONS, unique_id, SERVER, metadata=marked, spec={}, status={"phase": "Available"})


async def backed_up(service: Service) -> str:
    own_location(service)
    service.cluster.add(
        NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {"storageLocation": "mine"}}
    )
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    (backup,) = service.cluster.of(BACKUPS)
    return str(backup["metadata"]["name"])


def non_admin_download(service: Service) -> JSONObject:
    found = service.cluster.peek(NON_ADMIN_DOWNLOADS, "log", "shop")
    assert found is not None
    return found


@pytest.mark.spec("NAC-043")
async def test_a_url_of_a_backups_file_is_copied() -> None:
    service = Service()
    name = await backed_up(service)
    made = service.cluster.add(
        NON_ADMIN_DOWNLOADS, "log", "shop", spec={"target": {"kind": "BackupLog", "name": "nightly"}}
    )
    await service.look(NON_ADMIN_DOWNLOADS, "shop", "log")
    uid = made["metadata"]["uid"]
    download = service.cluster.peek(DOWNLOADS, f"nadr-{uid}", SERVER)
    assert download is not None
    assert download["spec"] == {"target": {"kind": "BackupLog", "name": name}}
    assert download["metadata"]["labels"]["openshift.io/oadp-nadr-origin-nacuuid"] == uid
    answer = {
        "phase": "Processed",
        "downloadURL": "https://x/signed",
        "expiration": format_time(service.cluster.clock.now() + timedelta(minutes=10)),
    }
    service.cluster.change(DOWNLOADS, f"nadr-{uid}", SERVER, status=answer)
    result = await service.look(NON_ADMIN_DOWNLOADS, "shop", "log")
    assert non_admin_download(service)["status"]["velero"] == {"status": answer}
    assert non_admin_download(service)["status"]["phase"] == "Created"
    assert conditions(non_admin_download(service)) == [("Processed", "True", "Success")]
    assert result is not None
    assert result.requeue_after_seconds == pytest.approx(600, abs=2)
    service.cluster.clock.turn(timedelta(minutes=11))
    await service.look(NON_ADMIN_DOWNLOADS, "shop", "log")
    assert service.cluster.of(NON_ADMIN_DOWNLOADS) == []


async def test_the_key_files_of_an_encrypted_file_are_copied_before_its_url() -> None:
    service = Service()
    await backed_up(service)
    made = service.cluster.add(
        NON_ADMIN_DOWNLOADS, "log", "shop", spec={"target": {"kind": "BackupLog", "name": "nightly"}}
    )
    await service.look(NON_ADMIN_DOWNLOADS, "shop", "log")
    (download,) = service.cluster.of(DOWNLOADS)
    notes = {**download["metadata"]["annotations"], KEY_FILES: '["the key file"]'}
    service.cluster.change(
        DOWNLOADS,
        f"nadr-{made['metadata']['uid']}",
        SERVER,
        metadata={**download["metadata"], "annotations": notes},
        status={"phase": "Processed", "downloadURL": "https://x/signed"},
    )
    seen: list[tuple[bool, bool]] = []
    for _ in range(2):
        await service.look(NON_ADMIN_DOWNLOADS, "shop", "log")
        found = non_admin_download(service)
        notes, status = found["metadata"].get("annotations") or {}, found.get("status") or {}
        seen.append((KEY_FILES in notes, "velero" in status))

    assert seen[-1] == (True, True)
    assert (False, True) not in seen
    assert non_admin_download(service)["metadata"]["annotations"][KEY_FILES] == '["the key file"]'


@pytest.mark.spec("NAC-044")
async def test_a_url_of_a_restores_file_is_copied() -> None:
    service = Service()
    await backed_up(service)
    service.cluster.add(NON_ADMIN_RESTORES, "back", "shop", spec={"restoreSpec": {"backupName": "nightly"}})
    await service.look(NON_ADMIN_RESTORES, "shop", "back")
    (restore,) = service.cluster.of(RESTORES)
    service.cluster.add(
        NON_ADMIN_DOWNLOADS, "log", "shop", spec={"target": {"kind": "RestoreLog", "name": "back"}}
    )
    await service.look(NON_ADMIN_DOWNLOADS, "shop", "log")
    (download,) = service.cluster.of(DOWNLOADS)
    assert download["spec"]["target"] == {"kind": "RestoreLog", "name": restore["metadata"]["name"]}


@pytest.mark.spec("NAC-044")
@pytest.mark.parametrize(
    ("kind", "reason"),
    [("BackupLog", "NonAdminBackupNotAvailable"), ("RestoreLog", "NonAdminRestoreNotAvailable")],
)
async def test_a_request_for_a_missing_object_backs_off(kind: str, reason: str) -> None:
    service = Service()
    service.cluster.add(NON_ADMIN_DOWNLOADS, "log", "shop", spec={"target": {"kind": kind, "name": "none"}})
    assert await service.look(NON_ADMIN_DOWNLOADS, "shop", "log") == Result.after(30.0)
    assert conditions(non_admin_download(service)) == [(reason, "True", "Error")]
    assert non_admin_download(service)["status"]["phase"] == "BackingOff"


async def test_a_hundred_requests_for_nothing_cost_two_calls_each_and_then_ever_fewer() -> None:
    service = Service()
    reads = count_reads(service)
    for number in range(100):
        target = {"kind": "BackupLog", "name": f"none-{number}"}
        service.cluster.add(NON_ADMIN_DOWNLOADS, f"log-{number}", "shop", spec={"target": target})
    delays = []
    for _ in range(8):
        for number in range(100):
            result = await service.look(NON_ADMIN_DOWNLOADS, "shop", f"log-{number}")
        assert result is not None
        assert result.requeue_after_seconds is not None
        delays.append(result.requeue_after_seconds)
        service.cluster.clock.turn(result.requeue_after_seconds)
        if len(delays) == 1:
            assert len(reads) == len(service.cluster.effects()) == 100
    assert delays == [30, 30, 60, 120, 240, 480, 960, 1920]
    assert len(service.cluster.effects()) == 100


def count_reads(service: Service) -> list[str]:
    """The names of what the API server is asked for, from now on."""
    reads: list[str] = []
    get = service.cluster.get

    async def counted(resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        reads.append(name)
        return await get(resource, name, namespace)

    service.cluster.get = counted  # type: ignore[method-assign]
    return reads


@pytest.mark.spec("NAC-044")
async def test_a_file_in_the_default_location_is_refused() -> None:
    service = Service()
    service.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}})
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    service.cluster.add(
        NON_ADMIN_DOWNLOADS, "log", "shop", spec={"target": {"kind": "BackupLog", "name": "nightly"}}
    )
    for _ in range(2):
        assert await service.look(NON_ADMIN_DOWNLOADS, "shop", "log") == DONE
    assert conditions(non_admin_download(service)) == [
        ("NonAdminBackupStorageLocationNotUsed", "True", "Error")
    ]
    assert service.cluster.of(DOWNLOADS) == []


# --- The collector --------------------------------------------------------------------------------------


def collector(service: Service) -> OrphanSweeper:
    return OrphanSweeper(service.cluster.client, SERVER, service.views, lambda: service.settings)


@pytest.mark.spec("NAC-045")
@pytest.mark.parametrize("approval", [False, True])
async def test_orphans_are_collected_and_other_objects_kept(approval: bool) -> None:
    service = Service(settings=AdminSettings(require_approval=approval))
    cluster = service.cluster
    gone = Key("shop", "gone")
    for resource, plain, origin, orphans in (
        (BACKUPS, 2, Origin.BACKUP, 4),
        (RESTORES, 3, Origin.RESTORE, 1),
        (LOCATIONS, 0, Origin.LOCATION, 5),
        (SECRETS, 1, Origin.LOCATION, 3),
    ):
        for number in range(plain):
            cluster.add(resource, f"plain-{number}", SERVER, spec={})
        for number in range(orphans):
            cluster.add(
                resource,
                f"orphan-{number}",
                SERVER,
                metadata=owner_metadata(origin, f"id-{number}", gone),
                spec={},
            )
        unmarked = {"labels": owner_metadata(origin, "id-9", gone)["labels"]}
        cluster.add(resource, "unmarked", SERVER, metadata=unmarked, spec={})
    own_location(service)
    for name, origin_name in (("kept", "mine"), ("orphan", "gone")):
        source = {"namespace": "shop", "name": origin_name, "nacuuid": "shop-mine-id", "requestedSpec": {}}
        cluster.add(
            NON_ADMIN_LOCATION_REQUESTS,
            name,
            SERVER,
            metadata=owner_metadata(Origin.LOCATION, "shop-mine-id", Key("shop", origin_name)),
            spec={},
            status={"nonAdminBackupStorageLocation": source},
        )

    result = await collector(service).reconcile(KEY)

    assert result.requeue_after_seconds == Duration.hours(24).total_seconds()

    def left(resource) -> list[str]:  # type: ignore[no-untyped-def]
        return sorted(each["metadata"]["name"] for each in cluster.of(resource))

    assert left(BACKUPS) == ["plain-0", "plain-1", "unmarked"]
    assert left(RESTORES) == ["plain-0", "plain-1", "plain-2", "unmarked"]
    assert left(LOCATIONS) == ["shop-mine-id", "unmarked"]
    assert left(SECRETS) == ["plain-0", "unmarked"]
    assert left(NON_ADMIN_LOCATION_REQUESTS) == (["kept"] if approval else [])


async def test_collection_removes_what_belonged_to_a_former_request_of_that_name() -> None:
    service = Service()
    service.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}})
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    former = owner_metadata(Origin.BACKUP, "former", Key("shop", "nightly"))
    service.cluster.add(BACKUPS, "former", SERVER, metadata=former, spec={})
    await collector(service).reconcile(KEY)
    (left,) = service.cluster.of(BACKUPS)
    assert left["metadata"]["name"] != "former"


@pytest.mark.spec("NAC-053")
async def test_without_a_period_nothing_is_collected() -> None:
    service = Service(settings=AdminSettings(collection_period=Duration()))
    service.cluster.add(
        BACKUPS, "orphan", SERVER, metadata=owner_metadata(Origin.BACKUP, "id", Key("shop", "gone")), spec={}
    )
    assert await collector(service).reconcile(KEY) == DONE
    assert len(service.cluster.of(BACKUPS)) == 1


# --- The synchronizer -----------------------------------------------------------------------------------


def synchronizer(service: Service) -> Synchronizer:
    return Synchronizer(
        service.cluster.client,
        service.views,
        service.lookups,
        lambda: service.settings,
        default_location="default",
        clock=service.cluster.clock,
    )


def stored(
    service: Service, name: str, tenant: str, location: str, *, ended: bool = True, **changes: object
) -> None:
    status = finished("Completed", service.cluster.clock.now()) if ended else {"phase": "InProgress"}
    marked = {**owner_metadata(Origin.BACKUP, name, Key(tenant, f"nab-{name}")), **changes}
    spec = {"storageLocation": location, "includedNamespaces": [tenant]}
    service.cluster.add(BACKUPS, name, SERVER, metadata=marked, spec=spec, status=status)


@pytest.mark.spec("NAC-046")
async def test_requests_are_made_for_stored_backups() -> None:
    service = Service()
    own_location(service)
    service.cluster.add(LOCATIONS, "default", SERVER, spec={})
    service.cluster.add(LOCATIONS, "other", SERVER, spec={})
    service.cluster.add(NAMESPACES, "shop", "", status={"phase": "Active"})
    for location in ("default", "shop-mine-id", "other"):
        stored(service, f"{location}-good", "shop", location)
        stored(service, f"{location}-running", "shop", location, ended=False)
        stored(service, f"{location}-unmarked", "shop", location, annotations={})
        stored(service, f"{location}-nowhere", "nowhere", location)
    await synchronizer(service).reconcile(KEY)
    made = {each["metadata"]["name"]: each for each in service.cluster.of(NON_ADMIN_BACKUPS)}
    assert sorted(made) == ["nab-default-good", "nab-shop-mine-id-good"]
    assert made["nab-default-good"]["spec"]["backupSpec"] == {"includedNamespaces": ["shop"]}
    assert made["nab-shop-mine-id-good"]["spec"]["backupSpec"]["storageLocation"] == "mine"
    assert made["nab-default-good"]["metadata"]["labels"] == {SYNCED: "default-good"}
    await synchronizer(service).reconcile(KEY)
    assert len(service.cluster.of(NON_ADMIN_BACKUPS)) == 2
    await service.settle()
    for non_admin_backup in service.cluster.of(NON_ADMIN_BACKUPS):
        assert non_admin_backup["status"]["phase"] == "Created"


@pytest.mark.spec("NAC-049")
async def test_a_forged_backup_gets_no_request() -> None:
    service = Service()
    own_location(service, "evil", "evil-mine-id")
    for tenant in ("evil", "victim"):
        service.cluster.add(NAMESPACES, tenant, "", status={"phase": "Active"})
    stored(service, "forged", "victim", "evil-mine-id")
    stored(
        service,
        "renamed",
        "evil",
        "evil-mine-id",
        labels=owner_metadata(Origin.BACKUP, "x", Key("", ""))["labels"],
    )
    await synchronizer(service).reconcile(KEY)
    assert service.cluster.of(NON_ADMIN_BACKUPS) == []

    # Nor may the victim's own request take it for its own.
    service.cluster.add(
        NON_ADMIN_BACKUPS,
        "nab-forged",
        "victim",
        metadata={"labels": {SYNCED: "forged"}},
        spec={"backupSpec": {}},
    )
    await service.settle()
    assert (
        conditions(service.cluster.peek(NON_ADMIN_BACKUPS, "nab-forged", "victim"))[0][2]
        == "VeleroBackupNotFound"
    )


@pytest.mark.spec("NAC-057")
async def test_nothing_is_made_in_a_namespace_that_ends() -> None:
    service = Service()
    service.cluster.add(LOCATIONS, "default", SERVER, spec={"default": True})
    service.cluster.add(NAMESPACES, "shop", "", status={"phase": "Active"})
    service.cluster.add(NAMESPACES, "ends", "", status={"phase": "Terminating"})
    stored(service, "one", "ends", "default")
    stored(service, "two", "shop", "default")
    await synchronizer(service).reconcile(KEY)
    assert [each["metadata"]["name"] for each in service.cluster.of(NON_ADMIN_BACKUPS)] == ["nab-two"]


async def test_a_refused_request_delays_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Service()
    service.cluster.add(LOCATIONS, "default", SERVER, spec={"default": True})
    service.cluster.add(NAMESPACES, "shop", "", status={"phase": "Active"})
    sweep = synchronizer(service)
    stored(service, "bad", "shop", "default")
    tries = 0

    def refuse(verb: str, _plural: str, name: str) -> None:
        nonlocal tries
        if (verb, name) == ("create", "nab-bad"):
            tries += 1
            raise Invalid(422, message="spec.hooks: too long")

    service.cluster.before = on_writes(refuse)
    for _ in range(24 * 30):
        # No back-off for all: the next look is after the usual period.
        assert await sweep.reconcile(KEY) == Result.after(120.0)
        service.cluster.clock.turn(120)
    stored(service, "good", "shop", "default")
    await sweep.reconcile(KEY)
    assert [each["metadata"]["name"] for each in service.cluster.of(NON_ADMIN_BACKUPS)] == ["nab-good"]
    assert tries < 14
    told = [record for record in caplog.records if "Could not make the request" in record.message]
    assert len(told) == 1
