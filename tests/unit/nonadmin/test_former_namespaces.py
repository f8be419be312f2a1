"""A namespace that is made again under an old name gets nothing of the former one unasked. (NAC 17 A29)"""

import pytest

from pinnace.api.nonadmin.names import NAMESPACE_UID_ANNOTATION, Origin
from pinnace.kube.resources import NAMESPACES
from pinnace.nonadmin.identity import owner_metadata
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_LOCATIONS
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.synchronizer import KEY, Synchronizer
from pinnace.runtime.keys import Key
from tests.unit.nonadmin.memory import BACKUPS, LOCATIONS, SERVER, Service, conditions, finished

SYNCED = "openshift.io/oadp-nab-synced-from-nacuuid"


def service_with(present: str, **settings: str) -> tuple[Service, str]:
    """A cluster with a stored backup of the former namespace `shop`; the uid of the present one."""
    service = Service(settings=AdminSettings(adopted_namespaces=settings))
    service.cluster.add(LOCATIONS, "default", SERVER, spec={"default": True})
    namespace = service.cluster.add(NAMESPACES, "shop", "", status={"phase": "Active"})
    uid = str(namespace["metadata"]["uid"])
    marked = owner_metadata(Origin.BACKUP, "old", Key("shop", "nightly"))
    marked["annotations"][NAMESPACE_UID_ANNOTATION] = uid if present == "same" else "former"
    status = finished("Completed", service.cluster.clock.now())
    spec = {"storageLocation": "default", "includedNamespaces": ["shop"]}
    service.cluster.add(BACKUPS, "old", SERVER, metadata=marked, spec=spec, status=status)
    return service, uid


def synchronizer(service: Service) -> Synchronizer:
    return Synchronizer(service.cluster.client, service.views, service.lookups, lambda: service.settings)


async def test_a_backup_says_which_namespace_it_is_of() -> None:
    service = Service()
    namespace = service.cluster.add(NAMESPACES, "shop", "", status={"phase": "Active"})
    service.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}})
    await service.look(NON_ADMIN_BACKUPS, "shop", "nightly")
    (backup,) = service.cluster.of(BACKUPS)
    assert backup["metadata"]["annotations"][NAMESPACE_UID_ANNOTATION] == namespace["metadata"]["uid"]


@pytest.mark.parametrize(
    ("present", "adopted", "handed_over"),
    [
        ("same", {}, True),
        ("other", {}, False),
        ("other", {"blog": "*"}, False),
        ("other", {"shop": "another-uid"}, False),
        ("other", {"shop": "uid"}, True),
        ("other", {"shop": "*"}, True),
        ("other", {"*": "*"}, True),
    ],
)
async def test_the_synchronizer_holds_back_a_backup_of_a_former_namespace(
    present: str, adopted: dict[str, str], handed_over: bool
) -> None:
    service, uid = service_with(present)
    agreed = {name: uid if value == "uid" else value for name, value in adopted.items()}
    service.settings = AdminSettings(adopted_namespaces=agreed)

    for _ in range(2):
        await synchronizer(service).reconcile(KEY)
    await service.settle()

    assert len(service.cluster.of(NON_ADMIN_BACKUPS)) == handed_over
    for non_admin_backup in service.cluster.of(NON_ADMIN_BACKUPS):
        assert non_admin_backup["status"]["phase"] == "Created"


async def test_a_held_back_backup_is_logged_once_and_made_known_after_consent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service, uid = service_with("other")
    one = synchronizer(service)
    for _ in range(3):
        await one.reconcile(KEY)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    service.settings = AdminSettings(adopted_namespaces={"shop": uid})
    await one.reconcile(KEY)
    assert len(service.cluster.of(NON_ADMIN_BACKUPS)) == 1


async def test_knowing_the_id_does_not_give_access() -> None:
    service, uid = service_with("other")
    forged = {"labels": {SYNCED: "old"}}
    service.cluster.add(NON_ADMIN_BACKUPS, "nightly", "shop", metadata=forged, spec={"backupSpec": {}})
    await service.settle()
    non_admin_backup = service.cluster.peek(NON_ADMIN_BACKUPS, "nightly", "shop")
    assert conditions(non_admin_backup) == [("Accepted", "False", "VeleroBackupNotFound")]
    assert non_admin_backup is not None
    assert "veleroBackup" not in non_admin_backup["status"]

    service.settings = AdminSettings(adopted_namespaces={"shop": uid})
    await service.settle()
    non_admin_backup = service.cluster.peek(NON_ADMIN_BACKUPS, "nightly", "shop")
    assert non_admin_backup is not None
    assert non_admin_backup["status"]["phase"] == "Created"
    # What was handed over stays so.
    service.settings = AdminSettings()
    await service.settle()
    assert non_admin_backup["status"]["veleroBackup"]["name"] == "old"


async def test_in_its_own_bucket_a_tenants_claim_is_ignored() -> None:
    service, _ = service_with("other")
    marked = owner_metadata(Origin.LOCATION, "default", Key("shop", "mine"))
    (location,) = service.cluster.of(LOCATIONS)
    service.cluster.change(LOCATIONS, "default", SERVER, metadata={**location["metadata"], **marked})
    service.cluster.add(NON_ADMIN_LOCATIONS, "mine", "shop", spec={})
    await synchronizer(service).reconcile(KEY)
    assert len(service.cluster.of(NON_ADMIN_BACKUPS)) == 1
