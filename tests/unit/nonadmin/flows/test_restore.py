"""The life of a NonAdminRestore. (docs/spec: NAC 10)"""

from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.kube.resources import DATA_DOWNLOADS, POD_VOLUME_RESTORES, APIResource
from pinnace.nonadmin.flows.restore import REMOVED
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.runtime.controller import DONE
from tests.unit.nonadmin.memory import (
    BACKUPS,
    RESTORES,
    SERVER,
    Crash,
    Service,
    conditions,
    finished,
    message,
    on_writes,
)


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


async def test_objects_and_an_own_secret_are_all_that_annotations_of_a_tenant_pass_on(
    service: Service,
) -> None:
    chosen = {
        "pinnace.io/objects": '{"objects": ["cm/shop/a"]}',
        "pinnace.io/identity-secret": "restore-key",
    }
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
    # The server reads the Secret where this says.
    assert annotations["openshift.io/oadp-nar-origin-namespace"] == "shop"


@pytest.mark.parametrize("name", ["../keys", "velero/keys", "keys?x", "A"])
async def test_an_annotation_that_is_not_the_name_of_a_secret_is_refused(service: Service, name: str) -> None:
    service.cluster.add(
        NON_ADMIN_RESTORES,
        "back",
        "shop",
        metadata={"annotations": {"pinnace.io/identity-secret": name}},
        spec={"restoreSpec": {"backupName": "nightly"}},
    )
    await service.settle()
    assert service.cluster.of(RESTORES) == []
    assert "is not the name of a Secret" in str(non_admin_restore(service)["status"])


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


INTERRUPTED = {
    "phase": "Failed",
    "failureReason": "the server was stopped",
    "completionTimestamp": "2030-01-01T00:00:00Z",
}


def annotate(
    service: Service, resource: APIResource, name: str, namespace: str, notes: JSONObject, **members: Any
) -> None:
    """Change annotations of an object, those of None away, and replace other members."""
    metadata = service.cluster.stored(resource, name, namespace)["metadata"]
    known = {**metadata.get("annotations", {}), **notes}
    kept = {key: value for key, value in known.items() if value is not None}
    service.cluster.change(resource, name, namespace, metadata={**metadata, "annotations": kept}, **members)


async def interrupted(service: Service, **spec: object) -> str:
    """A restore whose server died; the name of the Restore."""
    await asked(service, **spec)
    (restore,) = service.cluster.of(RESTORES)
    name = str(restore["metadata"]["name"])
    annotate(service, RESTORES, name, SERVER, {labels.INTERRUPTED: "true"}, status=INTERRUPTED)
    await service.settle()
    return name


def ask(service: Service) -> None:
    annotate(service, NON_ADMIN_RESTORES, "back", "shop", {labels.RESUME_REQUESTED: "please"})


async def asked_to_resume(service: Service) -> None:
    ask(service)
    await service.settle()
    assert labels.RESUME_REQUESTED not in non_admin_restore(service)["metadata"].get("annotations", {})


def is_asked(service: Service) -> bool:
    (restore,) = service.cluster.of(RESTORES)
    return labels.RESUME_REQUESTED in restore["metadata"]["annotations"]


async def test_an_interrupted_restore_of_a_tenant_is_resumed_on_request(service: Service) -> None:
    name = await interrupted(service)
    assert conditions(non_admin_restore(service))[-1] == ("Resumed", "False", "RestoreInterrupted")
    assert "nonadmin restore resume back" in message(non_admin_restore(service), "Resumed")
    assert not is_asked(service)

    service.settings = AdminSettings(max_hook_time=Duration.minutes(5))
    await asked_to_resume(service)

    assert is_asked(service)
    assert conditions(non_admin_restore(service))[-1] == ("Resumed", "True", "ResumeRequested")
    (restore,) = service.cluster.of(RESTORES)
    assert restore["metadata"]["annotations"]["pinnace.io/max-hook-time"] == "5m0s"

    # The server takes it, and is killed once more.
    notes = {labels.RESUME_REQUESTED: None, labels.INTERRUPTED: None, labels.RESUMED: "1"}
    annotate(service, RESTORES, name, SERVER, notes, status={"phase": "InProgress"})
    await service.settle()
    assert conditions(non_admin_restore(service))[-1] == ("Resumed", "True", "RestoreResumed")
    annotate(service, RESTORES, name, SERVER, {labels.INTERRUPTED: "true"}, status=INTERRUPTED)
    await service.settle()
    assert conditions(non_admin_restore(service))[-1] == ("Resumed", "False", "RestoreInterrupted")


@pytest.mark.parametrize("phase", ["Completed", "Failed", "InProgress"])
async def test_a_restore_that_was_not_interrupted_is_not_resumed(service: Service, phase: str) -> None:
    await asked(service)
    (restore,) = service.cluster.of(RESTORES)
    service.cluster.change(RESTORES, restore["metadata"]["name"], SERVER, status={"phase": phase})
    await asked_to_resume(service)
    assert conditions(non_admin_restore(service))[-1] == ("Resumed", "False", "ResumeRefused")
    assert f"not interrupted; its phase is {phase}" in message(non_admin_restore(service), "Resumed")
    assert not is_asked(service)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            {"restore": {"includedResources": ["configmaps"]}},
            "have changed since it began: includedRes",
        ),
        ({"restore": {"restorePVs": False}}, "the administrator has restricted spec.restoreSpec.restorePVs"),
        ({"max_unfinished_restores": 1}, "the administrator allows 1 unfinished restores"),
    ],
)
async def test_a_restore_goes_on_only_by_the_rules_that_hold_now(
    service: Service, rules: dict[str, Any], said: str
) -> None:
    await interrupted(service, restorePVs=True)
    service.cluster.add(NON_ADMIN_RESTORES, "other", "shop", spec={"restoreSpec": {"backupName": "nightly"}})
    await service.settle()
    service.settings = AdminSettings(**rules)
    ask(service)
    await service.settle()

    assert conditions(non_admin_restore(service))[-1] == ("Resumed", "False", "ResumeRefused")
    assert said in message(non_admin_restore(service), "Resumed")
    assert not any(labels.RESUME_REQUESTED in str(each) for each in service.cluster.of(RESTORES))

    service.settings = AdminSettings()
    await asked_to_resume(service)
    assert conditions(non_admin_restore(service))[-1] == ("Resumed", "True", "ResumeRequested")


async def test_a_request_that_asks_for_more_than_at_first_is_not_resumed(service: Service) -> None:
    await interrupted(service, includedResources=["configmaps"])
    wanted = {"backupName": "nightly", "includedResources": ["secrets"]}
    service.cluster.change(NON_ADMIN_RESTORES, "back", "shop", spec={"restoreSpec": wanted})
    await asked_to_resume(service)
    assert not is_asked(service)
    assert "includedResources" in message(non_admin_restore(service), "Resumed")


async def test_a_restore_of_a_backup_that_is_gone_is_not_resumed(service: Service) -> None:
    await interrupted(service)
    (backup,) = service.cluster.of(BACKUPS)
    service.cluster.remove(BACKUPS, backup["metadata"]["name"], SERVER)
    await asked_to_resume(service)
    assert not is_asked(service)
    assert "NonAdminBackup is not ready" in message(non_admin_restore(service), "Resumed")


async def test_a_resumed_restore_takes_a_slot(service: Service) -> None:
    service.settings = AdminSettings(max_unfinished_restores=1)
    await interrupted(service)
    await asked_to_resume(service)
    service.cluster.add(NON_ADMIN_RESTORES, "other", "shop", spec={"restoreSpec": {"backupName": "nightly"}})
    await service.settle()
    other = service.cluster.peek(NON_ADMIN_RESTORES, "other", "shop")
    assert conditions(other)[0] == ("Accepted", "False", "TooManyUnfinishedRestores")


@pytest.mark.parametrize("write", [1, 2, 3])
async def test_a_request_to_resume_survives_a_crash(service: Service, write: int) -> None:
    await interrupted(service)
    ask(service)
    left = [write]

    def strike(verb: str, plural: str, name: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Crash

    service.cluster.before = on_writes(strike)
    with pytest.raises(Crash):
        await service.settle()
    service.cluster.before = lambda *_: None
    again = Service(service.cluster)
    await again.settle()
    assert is_asked(again)
    assert labels.RESUME_REQUESTED not in non_admin_restore(again)["metadata"].get("annotations", {})
    assert conditions(non_admin_restore(again))[-1] == ("Resumed", "True", "ResumeRequested")


async def test_a_resumed_restore_that_failed_for_another_reason_is_not_resumed_again(
    service: Service,
) -> None:
    name = await interrupted(service)
    await asked_to_resume(service)
    notes = {labels.RESUME_REQUESTED: None, labels.INTERRUPTED: None, labels.RESUMED: "1"}
    annotate(service, RESTORES, name, SERVER, notes, status={"phase": "Failed"})
    await service.settle()
    await asked_to_resume(service)
    assert conditions(non_admin_restore(service))[-1] == ("Resumed", "False", "ResumeRefused")


async def test_a_cache_that_lags_asks_the_server_once(service: Service) -> None:
    name = await interrupted(service)
    service.views[RESTORES].freeze()
    await asked_to_resume(service)
    annotate(service, RESTORES, name, SERVER, {labels.RESUME_REQUESTED: None})
    await service.settle()
    assert not is_asked(service)
    assert conditions(non_admin_restore(service))[-1] == ("Resumed", "True", "ResumeRequested")
