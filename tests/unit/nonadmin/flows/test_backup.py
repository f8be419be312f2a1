"""The life of a NonAdminBackup, path by path. (docs/spec: NAC 9)"""

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.resources import DATA_UPLOADS, POD_VOLUME_BACKUPS
from pinnace.nonadmin.flows.backup import NOTHING_TO_SYNC, PERMANENT_DELETE, PLAIN_DELETE, REMOVED
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from pinnace.runtime.controller import DONE
from tests.unit.nonadmin.memory import (
    BACKUPS,
    DELETE_REQUESTS,
    SERVER,
    Service,
    conditions,
    finished,
    message,
    on_writes,
)

FINALIZER = "nonadminbackup.oadp.openshift.io/finalizer"
NAC = "openshift.io/oadp-nab-origin"


@pytest.fixture
def service() -> Service:
    return Service()


def non_admin_backup(service: Service, name: str = "nightly") -> JSONObject:
    found = service.cluster.peek(NON_ADMIN_BACKUPS, name, "shop")
    assert found is not None
    return found


def backup_of(service: Service, name: str = "nightly") -> JSONObject | None:
    return service.cluster.peek(
        BACKUPS, non_admin_backup(service, name)["status"]["veleroBackup"]["name"], SERVER
    )


async def made(service: Service, name: str = "nightly", **spec: object) -> JSONObject:
    """A request whose Backup exists; the Backup."""
    service.cluster.add(NON_ADMIN_BACKUPS, name, "shop", spec={"backupSpec": {}, **spec})
    await service.look(NON_ADMIN_BACKUPS, "shop", name)
    backup = backup_of(service, name)
    assert backup is not None
    return backup


def end(service: Service, backup: JSONObject, phase: str = "Completed") -> None:
    status = finished(phase, service.cluster.clock.now())
    service.cluster.change(BACKUPS, backup["metadata"]["name"], SERVER, status=status)


@pytest.mark.spec("NAC-020")
async def test_a_valid_request_gets_its_backup_in_one_pass(service: Service) -> None:
    service.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}})

    assert await service.look(NON_ADMIN_BACKUPS, "shop", "nightly") == DONE

    found = non_admin_backup(service)
    status, reference = found["status"], found["status"]["veleroBackup"]
    assert status["phase"] == "Created"
    assert conditions(found) == [
        ("Accepted", "True", "BackupAccepted"),
        ("Queued", "True", "BackupScheduled"),
    ]
    assert message(found, "Accepted") == "backup accepted"
    assert message(found, "Queued") == "Created Velero Backup object"
    assert reference["nacuuid"] == reference["name"]
    assert (reference["namespace"], reference["status"]) == (SERVER, {})
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert status["queueInfo"] == {"estimatedQueuePosition": 1}
    backup = backup_of(service)
    assert backup is not None
    assert backup["metadata"]["labels"] == {
        "openshift.io/oadp": "True",
        "app.kubernetes.io/managed-by": "oadp-nac-controller",
        f"{NAC}-nacuuid": reference["nacuuid"],
    }
    assert backup["metadata"]["annotations"] == {
        f"{NAC}-name": "nightly",
        f"{NAC}-namespace": "shop",
        "pinnace.io/max-hook-time": "30m0s",
    }


@pytest.mark.spec("NAC-021")
async def test_an_invalid_request_backs_off_and_is_never_new_again(service: Service) -> None:
    service.cluster.add(
        NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {"includedNamespaces": ["other"]}}
    )

    assert await service.look(NON_ADMIN_BACKUPS, "shop", "nightly") == DONE

    found = non_admin_backup(service)
    assert found["status"]["phase"] == "BackingOff"
    assert conditions(found) == [("Accepted", "False", "InvalidBackupSpec")]
    assert "finalizers" not in found["metadata"]
    assert service.cluster.of(BACKUPS) == []
    phases: list[str] = []
    service.cluster.before = on_writes(lambda *_: phases.append(non_admin_backup(service)["status"]["phase"]))
    service.cluster.change(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}})
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    assert non_admin_backup(service)["status"]["phase"] == "Created"
    assert "New" not in phases


@pytest.mark.spec("NAC-022")
async def test_a_second_pass_writes_nothing(service: Service) -> None:
    await made(service)
    before = service.cluster.effects()

    assert await service.look(NON_ADMIN_BACKUPS, "shop", "nightly") == DONE

    assert service.cluster.effects() == before


@pytest.mark.spec("NAC-023")
async def test_a_stale_read_is_noticed_and_tried_again(service: Service) -> None:
    service.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}})
    edits = ["once"]

    def edit(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("patch", "nonadminbackups") and edits:
            edits.pop()
            service.cluster.change(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {"ttl": "1h"}})

    service.cluster.before = on_writes(edit)
    result = await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    assert result is not None
    assert result.requeue_after_seconds is not None
    await service.settle()

    (backup,) = service.cluster.of(BACKUPS)
    assert backup["spec"]["ttl"] == "1h"


async def test_a_lagging_cache_makes_no_second_backup(service: Service) -> None:
    service.views[BACKUPS].freeze()
    backup = await made(service)
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")

    assert service.cluster.of(BACKUPS) == [backup]
    assert non_admin_backup(service)["status"]["phase"] == "Created"


@pytest.mark.spec("NAC-024")
async def test_progress_is_mirrored(service: Service) -> None:
    backup = await made(service)
    name = backup["metadata"]["name"]
    owner = [{"kind": "Backup", "apiVersion": "velero.io/v1", "name": name}]
    service.cluster.add(
        POD_VOLUME_BACKUPS,
        "pvb",
        SERVER,
        metadata={"labels": {"velero.io/backup-name": name}, "ownerReferences": owner},
        status={"phase": "Completed"},
    )
    for status, position in (
        ({"phase": "InProgress"}, 1),
        (finished("Completed", service.cluster.clock.now()), 0),
    ):
        service.cluster.change(BACKUPS, name, SERVER, status=status)
        await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
        assert non_admin_backup(service)["status"]["veleroBackup"]["status"] == status
        assert non_admin_backup(service)["status"]["queueInfo"]["estimatedQueuePosition"] == position
    assert non_admin_backup(service)["status"]["fileSystemPodVolumeBackups"] == {"total": 1, "completed": 1}


@pytest.mark.found("K-F6")
async def test_moved_volumes_are_counted_by_their_phase(service: Service) -> None:
    name = (await made(service))["metadata"]["name"]
    phases = ["", "New", "Accepted", "Prepared", "InProgress", "Canceling", "Canceled", "Failed", "Completed"]
    for number, phase in enumerate([*phases, "Completed", "ofLater"]):
        metadata = {"labels": {"velero.io/backup-name": name}}
        service.cluster.add(DATA_UPLOADS, f"up-{number}", SERVER, metadata=metadata, status={"phase": phase})
    service.cluster.add(
        DATA_UPLOADS, "other", SERVER, metadata={"labels": {"velero.io/backup-name": "another"}}
    )
    service.cluster.change(BACKUPS, name, SERVER, status={"phase": "InProgress"})
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    counted = ("new", "accepted", "prepared", "inProgress", "canceling", "canceled", "failed")
    assert non_admin_backup(service)["status"]["dataMoverDataUploads"] == {
        **dict.fromkeys(counted, 1),
        "completed": 2,
        "total": 11,
    }


async def test_a_new_request_takes_four_writes(service: Service) -> None:
    """The status with the id, the finalizer, the Backup, the mirrored status: in this order."""
    backup = await made(service)

    assert service.cluster.effects() == [
        ("patch", "nonadminbackups", "nightly"),
        ("patch", "nonadminbackups", "nightly"),
        ("create", "backups", backup["metadata"]["name"]),
        ("patch", "nonadminbackups", "nightly"),
    ]


async def test_a_new_id_is_not_looked_up(service: Service) -> None:
    await made(service)

    assert [call for call in service.cluster.calls if call[:2] == ("get", "backups")] == []


async def test_the_servers_queue_changes_nothing_of_the_request(service: Service) -> None:
    name = (await made(service))["metadata"]["name"]
    before = non_admin_backup(service)
    for position in (9, 3):
        service.cluster.change(BACKUPS, name, SERVER, status={"phase": "Queued", "queuePosition": position})
        await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
        assert non_admin_backup(service) == before


async def test_nulls_in_a_backup_cause_no_write(service: Service) -> None:
    backup = await made(service)
    spec = {**backup["spec"], "labelSelector": None, "hooks": {"resources": [{"name": "x", "pre": None}]}}
    service.cluster.change(BACKUPS, backup["metadata"]["name"], SERVER, spec=spec)
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    before = service.cluster.effects()

    assert await service.look(NON_ADMIN_BACKUPS, "shop", "nightly") == DONE
    assert service.cluster.effects() == before


@pytest.mark.spec("NAC-025")
async def test_a_backup_that_is_gone_is_not_made_again(service: Service) -> None:
    backup = await made(service)
    service.cluster.remove(BACKUPS, backup["metadata"]["name"], SERVER)

    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")

    assert non_admin_backup(service)["status"]["phase"] == "BackingOff"
    assert conditions(non_admin_backup(service)) == [
        ("Accepted", "False", "VeleroBackupNotFound"),
        ("Queued", "True", "BackupScheduled"),
    ]
    assert message(non_admin_backup(service), "Accepted") == REMOVED
    restarted = Service(service.cluster)
    await restarted.settle()
    service.cluster.change(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {"ttl": "1h"}})
    await restarted.settle()
    assert service.cluster.of(BACKUPS) == []


@pytest.mark.spec("NAC-026")
async def test_two_backups_of_one_id_change_nothing(service: Service) -> None:
    backup = await made(service)
    service.cluster.add(BACKUPS, "twin", SERVER, metadata={"labels": backup["metadata"]["labels"]}, spec={})
    before = non_admin_backup(service)

    assert await service.look(NON_ADMIN_BACKUPS, "shop", "nightly") is None
    assert non_admin_backup(service) == before


@pytest.mark.spec("NAC-026")
async def test_a_foreign_backup_changes_nothing(service: Service) -> None:
    backup = await made(service)
    metadata = {**backup["metadata"], "annotations": {f"{NAC}-name": "nightly", f"{NAC}-namespace": "bank"}}
    service.cluster.change(
        BACKUPS, backup["metadata"]["name"], SERVER, metadata=metadata, status={"phase": "Failed"}
    )
    before = non_admin_backup(service)

    assert await service.look(NON_ADMIN_BACKUPS, "shop", "nightly") == DONE
    assert non_admin_backup(service) == before


@pytest.mark.spec("NAC-027")
async def test_plain_deletion_keeps_the_data(service: Service) -> None:
    backup = await made(service)
    name = backup["metadata"]["name"]
    metadata = {"labels": {**backup["metadata"]["labels"], "velero.io/backup-name": name}}
    service.cluster.add(DELETE_REQUESTS, "asked", SERVER, metadata=metadata, spec={"backupName": name})
    service.cluster.change(BACKUPS, name, SERVER, metadata={**backup["metadata"], "finalizers": ["x/y"]})
    service.cluster.remove(NON_ADMIN_BACKUPS, "nightly", "shop")

    result = await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    assert result is not None
    assert result.requeue_after_seconds is not None
    assert non_admin_backup(service)["status"]["phase"] == "Deleting"
    assert message(non_admin_backup(service), "Deleting") == PLAIN_DELETE
    assert service.cluster.of(DELETE_REQUESTS) == []
    waiting = service.cluster.peek(BACKUPS, name, SERVER)
    assert waiting is not None
    assert "deletionTimestamp" in waiting["metadata"]
    service.cluster.change(BACKUPS, name, SERVER, metadata={**waiting["metadata"], "finalizers": []})
    service.cluster.remove(BACKUPS, name, SERVER)
    await service.settle()
    assert service.cluster.of(NON_ADMIN_BACKUPS) == []
    assert ("create", "deletebackuprequests") not in {call[:2] for call in service.cluster.calls}


@pytest.mark.spec("NAC-027")
async def test_plain_deletion_without_a_backup_ends_at_once(service: Service) -> None:
    backup = await made(service)
    service.cluster.remove(BACKUPS, backup["metadata"]["name"], SERVER)
    service.cluster.remove(NON_ADMIN_BACKUPS, "nightly", "shop")

    assert await service.look(NON_ADMIN_BACKUPS, "shop", "nightly") == DONE
    assert service.cluster.of(NON_ADMIN_BACKUPS) == []


@pytest.mark.spec("NAC-028", "NAC-031")
async def test_an_invalid_request_can_be_deleted_for_good(service: Service) -> None:
    spec = {"backupSpec": {"includedNamespaces": ["other"]}}
    service.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", spec=spec)
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    service.cluster.change(NON_ADMIN_BACKUPS, "nightly", "shop", spec={**spec, "deleteBackup": True})

    result = await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")

    assert result is not None
    assert result.requeue_after_seconds is not None
    assert list(service.cluster.objects) == [("namespaces", "", SERVER)]


@pytest.mark.spec("NAC-029", "NAC-056")
async def test_permanent_deletion_removes_restores_the_backup_and_its_data(service: Service) -> None:
    backup = await made(service)
    await made(service, "other")
    name, uid = backup["metadata"]["name"], backup["metadata"]["uid"]
    end(service, backup)
    for non_admin_restore, of in (("mine", "nightly"), ("kept", "other")):
        service.cluster.add(
            NON_ADMIN_RESTORES, non_admin_restore, "shop", spec={"restoreSpec": {"backupName": of}}
        )
    service.cluster.change(
        NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}, "deleteBackup": True}
    )

    first = await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    assert first is not None
    assert first.requeue_after_seconds is not None
    assert non_admin_backup(service)["status"]["phase"] == "Deleting"
    assert (
        message(non_admin_backup(service), "Deleting") == PERMANENT_DELETE == "backup accepted for deletion"
    )
    assert non_admin_backup(service)["metadata"]["deletionTimestamp"]
    assert service.cluster.of(DELETE_REQUESTS) == []

    # The restore is deleted in the meantime.
    def gone(verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("delete", "nonadminrestores"):
            service.cluster.remove(NON_ADMIN_RESTORES, "mine", "shop")

    service.cluster.before = gone
    service.views[DELETE_REQUESTS].freeze()
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    assert [each["metadata"]["name"] for each in service.cluster.of(NON_ADMIN_RESTORES)] == ["kept"]
    (request,) = service.cluster.of(DELETE_REQUESTS)
    unique_id = non_admin_backup(service)["status"]["veleroBackup"]["nacuuid"]
    assert request["metadata"]["generateName"] == f"{name}-"
    assert request["metadata"]["labels"] == {
        "openshift.io/oadp": "True",
        "app.kubernetes.io/managed-by": "oadp-nac-controller",
        f"{NAC}-nacuuid": unique_id,
        "velero.io/backup-name": name,
        "velero.io/backup-uid": uid,
    }
    assert request["spec"] == {"backupName": name}
    assert non_admin_backup(service)["status"]["veleroDeleteBackupRequest"] == {
        "nacuuid": unique_id,
        "name": request["metadata"]["name"],
        "namespace": SERVER,
        "status": {},
    }
    service.cluster.remove(BACKUPS, name, SERVER)
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    assert service.cluster.peek(NON_ADMIN_BACKUPS, "nightly", "shop") is None
    assert service.cluster.peek(NON_ADMIN_BACKUPS, "other", "shop") is not None


@pytest.mark.spec("NAC-030")
async def test_a_deletion_that_failed_is_shown_and_requested_again(service: Service) -> None:
    backup = await made(service)
    service.cluster.remove(NON_ADMIN_BACKUPS, "nightly", "shop")
    spec = {"backupSpec": {}, "deleteBackup": True}
    service.cluster.change(NON_ADMIN_BACKUPS, "nightly", "shop", spec=spec)
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    assert message(non_admin_backup(service), "Deleting") == PERMANENT_DELETE
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    (request,) = service.cluster.of(DELETE_REQUESTS)
    failed = {"phase": "Processed", "errors": ["backup is still in progress"]}
    service.cluster.change(DELETE_REQUESTS, request["metadata"]["name"], SERVER, status=failed)
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    assert non_admin_backup(service)["status"]["veleroDeleteBackupRequest"]["status"] == failed
    assert service.cluster.of(DELETE_REQUESTS)[0]["metadata"]["uid"] == request["metadata"]["uid"]

    service.cluster.clock.turn(31)
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")

    (again,) = service.cluster.of(DELETE_REQUESTS)
    assert again["metadata"]["uid"] != request["metadata"]["uid"]
    assert service.cluster.peek(BACKUPS, backup["metadata"]["name"], SERVER) is not None


@pytest.mark.spec("NAC-032")
async def test_a_backup_from_storage_is_taken_over_without_validation(service: Service) -> None:
    backup = await made(service)
    end(service, backup)
    unique_id = non_admin_backup(service)["status"]["veleroBackup"]["nacuuid"]
    service.cluster.vanish(NON_ADMIN_BACKUPS, "nightly", "shop")
    label = {"openshift.io/oadp-nab-synced-from-nacuuid": unique_id}
    spec = {"backupSpec": {"includedNamespaces": ["anything"]}}
    service.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", metadata={"labels": label}, spec=spec)

    await service.settle()

    assert non_admin_backup(service)["status"]["phase"] == "Created"
    assert conditions(non_admin_backup(service)) == [("Queued", "True", "BackupScheduled")]
    assert non_admin_backup(service)["status"]["queueInfo"]["estimatedQueuePosition"] == 0
    assert len(service.cluster.of(BACKUPS)) == 1


@pytest.mark.spec("NAC-032", "NAC-054")
async def test_a_label_without_a_backup_leads_to_no_backup(service: Service) -> None:
    label = {"openshift.io/oadp-nab-synced-from-nacuuid": "nothing"}
    spec = {"backupSpec": {"includedNamespaces": ["*"]}}
    service.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", metadata={"labels": label}, spec=spec)

    await service.settle()

    assert non_admin_backup(service)["status"]["phase"] == "BackingOff"
    assert message(non_admin_backup(service), "Accepted") == NOTHING_TO_SYNC
    assert service.cluster.of(BACKUPS) == []
    assert "veleroBackup" not in non_admin_backup(service)["status"]


@pytest.mark.spec("NAC-032")
async def test_an_empty_label_counts_as_none(service: Service) -> None:
    label = {"openshift.io/oadp-nab-synced-from-nacuuid": ""}
    service.cluster.add(
        NON_ADMIN_BACKUPS, "nightly", "shop", metadata={"labels": label}, spec={"backupSpec": {}}
    )

    await service.settle()

    assert conditions(non_admin_backup(service))[0] == ("Accepted", "True", "BackupAccepted")


@pytest.mark.spec("NAC-054")
async def test_a_taken_over_backup_that_is_gone_is_not_made_again(service: Service) -> None:
    backup = await made(service)
    end(service, backup)
    label = {"openshift.io/oadp-nab-synced-from-nacuuid": backup["metadata"]["name"]}
    service.cluster.change(
        NON_ADMIN_BACKUPS,
        "nightly",
        "shop",
        metadata={**non_admin_backup(service)["metadata"], "labels": label},
    )
    service.cluster.remove(BACKUPS, backup["metadata"]["name"], SERVER)

    await service.settle()

    assert message(non_admin_backup(service), "Accepted") == REMOVED
    assert non_admin_backup(service)["status"]["phase"] == "BackingOff"
    assert service.cluster.of(BACKUPS) == []


async def test_an_accepted_request_stays_accepted_until_its_spec_changes(service: Service) -> None:
    await made(service)
    service.settings = type(service.settings)(backup={"ttl": "1h"})
    await service.settle()
    assert non_admin_backup(service)["status"]["phase"] == "Created"

    service.cluster.change(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {"ttl": "2h"}})
    await service.settle()

    assert non_admin_backup(service)["status"]["phase"] == "BackingOff"
    assert message(non_admin_backup(service), "Accepted").endswith(
        "spec.backupSpec.ttl field value to 1h0m0s"
    )
    service.cluster.change(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}})
    await service.settle()
    assert non_admin_backup(service)["status"]["phase"] == "Created"
