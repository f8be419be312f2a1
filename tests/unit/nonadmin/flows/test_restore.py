"""The life of a NonAdminRestore. (docs/spec: NAC 10)"""

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.resources import DATA_DOWNLOADS, POD_VOLUME_RESTORES
from pinnace.nonadmin.flows.restore import REMOVED
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from pinnace.runtime.controller import DONE
from tests.unit.nonadmin.memory import BACKUPS, RESTORES, SERVER, Service, conditions, finished, message


@pytest.fixture
async def service() -> Service:
    made = Service()
    made.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}})
    await made.settle()
    return made


def non_admin_restore(service: Service) -> JSONObject:
    found = service.cluster.peek(NON_ADMIN_RESTORES, "back", "shop")
    assert found is not None
    return found


async def asked(service: Service, **spec: object) -> None:
    service.cluster.add(
        NON_ADMIN_RESTORES, "back", "shop", spec={"restoreSpec": {"backupName": "nightly", **spec}}
    )
    await service.look(NON_ADMIN_RESTORES, "shop", "back")


@pytest.mark.spec("NAC-033")
async def test_a_restore_is_created_mirrored_and_completed(service: Service) -> None:
    await asked(service)
    assert non_admin_restore(service)["status"]["phase"] == "Created"
    assert conditions(non_admin_restore(service)) == [
        ("Accepted", "True", "RestoreAccepted"),
        ("Queued", "True", "RestoreScheduled"),
    ]
    assert non_admin_restore(service)["status"]["veleroRestore"]["status"] == {}
    assert non_admin_restore(service)["status"]["queueInfo"] == {"estimatedQueuePosition": 1}
    (restore,) = service.cluster.of(RESTORES)
    name = restore["metadata"]["name"]
    service.cluster.add(
        POD_VOLUME_RESTORES,
        "pvr",
        SERVER,
        metadata={"labels": {"velero.io/restore-name": name}},
        status={"phase": "Completed"},
    )
    service.cluster.add(
        DATA_DOWNLOADS,
        "down",
        SERVER,
        metadata={"labels": {"velero.io/restore-name": name}},
        status={"phase": "Prepared"},
    )
    status = finished("Completed", service.cluster.clock.now())
    service.cluster.change(RESTORES, name, SERVER, status=status)
    await service.look(NON_ADMIN_RESTORES, "shop", "back")
    assert non_admin_restore(service)["status"]["dataMoverDataDownloads"] == {"total": 1, "prepared": 1}
    assert non_admin_restore(service)["status"]["veleroRestore"]["status"] == status
    assert non_admin_restore(service)["status"]["fileSystemPodVolumeRestores"] == {"total": 1, "completed": 1}
    assert non_admin_restore(service)["status"]["queueInfo"] == {"estimatedQueuePosition": 0}

    service.cluster.remove(NON_ADMIN_RESTORES, "back", "shop")
    assert non_admin_restore(service)["metadata"]["deletionTimestamp"]
    await service.settle()
    assert service.cluster.of(RESTORES) == []
    assert service.cluster.of(NON_ADMIN_RESTORES) == []


async def test_single_objects_are_the_only_annotation_that_a_tenant_passes_on(service: Service) -> None:
    chosen = {"pinnace.io/objects": '{"objects": ["cm/shop/a"]}'}
    others = {"pinnace.io/allow-failed-backup": "true", "pinnace.io/max-hook-time": "9999h"}
    service.cluster.add(
        NON_ADMIN_RESTORES,
        "back",
        "shop",
        metadata={"annotations": {**chosen, **others}},
        spec={"restoreSpec": {"backupName": "nightly"}},
    )
    await service.settle()
    (restore,) = service.cluster.of(RESTORES)
    annotations = restore["metadata"]["annotations"]
    assert annotations.items() >= chosen.items()
    assert not annotations.items() & others.items()


@pytest.mark.spec("NAC-034")
async def test_a_restore_that_is_gone_is_not_made_again(service: Service) -> None:
    await asked(service)
    (restore,) = service.cluster.of(RESTORES)
    service.cluster.remove(RESTORES, restore["metadata"]["name"], SERVER)
    await service.settle()
    assert non_admin_restore(service)["status"]["phase"] == "BackingOff"
    assert conditions(non_admin_restore(service))[0] == ("Accepted", "False", "VeleroRestoreNotFound")
    assert message(non_admin_restore(service), "Accepted") == REMOVED
    assert non_admin_restore(service)["status"]["queueInfo"] == {"estimatedQueuePosition": 1}
    service.cluster.change(
        NON_ADMIN_RESTORES,
        "back",
        "shop",
        spec={"restoreSpec": {"backupName": "nightly", "restorePVs": True}},
    )
    await service.settle()
    assert service.cluster.of(RESTORES) == []


@pytest.mark.spec("NAC-034")
async def test_a_backup_that_backs_off_cannot_be_restored(service: Service) -> None:
    (backup,) = service.cluster.of(BACKUPS)
    service.cluster.remove(BACKUPS, backup["metadata"]["name"], SERVER)
    await service.settle()
    await asked(service)
    assert non_admin_restore(service)["status"]["phase"] == "BackingOff"
    assert "queueInfo" not in non_admin_restore(service)["status"]


@pytest.mark.spec("NAC-035")
async def test_a_finished_restore_outlives_its_backup(service: Service) -> None:
    await asked(service)
    (restore,) = service.cluster.of(RESTORES)
    status = finished("Completed", service.cluster.clock.now())
    service.cluster.change(RESTORES, restore["metadata"]["name"], SERVER, status=status)
    await service.settle()
    service.cluster.remove(NON_ADMIN_BACKUPS, "nightly", "shop")
    await service.settle()
    assert service.cluster.of(NON_ADMIN_BACKUPS) == []
    assert non_admin_restore(service)["status"]["phase"] == "Created"


@pytest.mark.spec("NAC-055")
async def test_a_request_without_an_id_can_be_deleted(service: Service) -> None:
    finalizer = "nonadminrestore.oadp.openshift.io/finalizer"
    spec = {"restoreSpec": {"backupName": "nightly"}}
    service.cluster.add(NON_ADMIN_RESTORES, "back", "shop", metadata={"finalizers": [finalizer]}, spec=spec)
    service.cluster.remove(NON_ADMIN_RESTORES, "back", "shop")
    assert await service.look(NON_ADMIN_RESTORES, "shop", "back") == DONE
    assert service.cluster.of(NON_ADMIN_RESTORES) == []


async def test_a_foreign_restore_is_left_alone(service: Service) -> None:
    await asked(service)
    (restore,) = service.cluster.of(RESTORES)
    annotations = {
        "openshift.io/oadp-nar-origin-name": "back",
        "openshift.io/oadp-nar-origin-namespace": "bank",
    }
    metadata = {**restore["metadata"], "annotations": annotations}
    service.cluster.change(RESTORES, restore["metadata"]["name"], SERVER, metadata=metadata)
    before = non_admin_restore(service)
    await service.settle()
    assert non_admin_restore(service) == before
    service.cluster.remove(NON_ADMIN_RESTORES, "back", "shop")
    await service.settle()
    assert service.cluster.of(NON_ADMIN_RESTORES) == []
    assert len(service.cluster.of(RESTORES)) == 1
