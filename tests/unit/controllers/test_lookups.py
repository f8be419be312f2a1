"""Where the controllers look things up: what passes is tried again, what does not is said."""

import base64
import stat
from pathlib import Path

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.backup.request import ServerDefaults
from pinnace.controllers.backup import FRESH_SECONDS, VERSION_SECONDS, BackupWork
from pinnace.controllers.restore import ClusterBackups
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import ConnectionFailed, Forbidden, NotFound
from pinnace.restore.errors import BackupLookupError
from pinnace.storage.errors import StorageError, StoreConfigError
from tests.unit.controllers.fakes import LOCATIONS, NAMESPACE, World, fail_always

DENIED = Forbidden(403, reason="Forbidden", message="you may not")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(*_args: object, **_kwargs: object) -> Discovery:
        return Discovery([])

    monkeypatch.setattr(Discovery, "load", load)


@pytest.fixture
def work(world: World, served: None) -> BackupWork:
    return BackupWork(world.scope, world.locations, defaults=ServerDefaults())


async def planned(work: BackupWork) -> Backup:
    return (await work.plan(Backup(metadata=ObjectMeta(name="b1")))).begun


async def test_a_backup_waits_for_an_api_server_out_of_reach(world: World, work: BackupWork) -> None:
    world.cluster.before = fail_always("list", "backupstoragelocations")

    with pytest.raises(ConnectionFailed):
        await planned(work)


@pytest.mark.found("Z6")
async def test_a_location_that_cannot_be_read_is_said_once_and_after_a_change(
    world: World, work: BackupWork, caplog: pytest.LogCaptureFixture
) -> None:
    world.add_location()
    world.add_location("odd", backupSyncPeriod="1d")
    world.add_location("odder", backupSyncPeriod=5)
    said = []
    for period in ("1d", "1d", 5, "1h", "1d"):
        world.cluster.stored(LOCATIONS.name, "odd")["spec"]["backupSyncPeriod"] = period
        caplog.clear()
        for _ in range(3):
            await planned(work)
        said.append(sum("Location cannot be read" in record.getMessage() for record in caplog.records))
    assert said == [2, 0, 1, 0, 1]


async def test_a_backup_is_failed_when_its_locations_may_not_be_read(world: World, work: BackupWork) -> None:
    world.cluster.before = fail_always("list", "backupstoragelocations", error=DENIED)

    begun = await planned(work)

    assert begun.status.phase == "FailedValidation"
    assert begun.status.validation_errors == ["error getting backup storage location: you may not"]


async def test_a_location_that_cannot_be_read_does_not_stop_the_backups_of_others(
    world: World, work: BackupWork
) -> None:
    world.add_location("broken", validationFrequency="often")
    world.add_location("good", default=True)

    plan = await work.plan(Backup(metadata=ObjectMeta(name="b1")))

    assert plan.begun.status.phase == "InProgress"
    assert plan.begun.spec.storage_location == "good"
    assert plan.execute is not None


async def test_the_version_of_the_cluster_is_read_once_a_minute(world: World, served: None) -> None:
    world.add_location("default", default=True)
    work = BackupWork(world.scope, world.locations, defaults=ServerDefaults())

    for moment, versions_read in ((0.0, 1), (VERSION_SECONDS - 1, 1), (VERSION_SECONDS, 2)):
        world.clock.time = moment
        plan = await work.plan(Backup(metadata=ObjectMeta(name="b1")))
        assert world.cluster.versions_read == versions_read
        annotations = plan.begun.metadata.annotations
        assert annotations["velero.io/source-cluster-k8s-gitversion"] == "v1.30.2"


@pytest.mark.parametrize(
    ("waited_seconds", "is_read_again"), [(FRESH_SECONDS / 2, False), (FRESH_SECONDS, True)]
)
async def test_a_location_is_read_again_only_for_a_backup_that_has_waited(
    world: World, served: None, waited_seconds: float, is_read_again: bool
) -> None:
    world.add_location("default", default=True, provider="unknown")
    work = BackupWork(world.scope, world.locations, defaults=ServerDefaults())
    plan = await work.plan(Backup(metadata=ObjectMeta(name="b1", namespace=NAMESPACE)))
    assert plan.execute is not None
    denied = Forbidden(403, reason="Forbidden", message="it was read again")
    world.cluster.before = fail_always("get", "backupstoragelocations", error=denied)
    world.clock.turn(waited_seconds)

    ended = await plan.execute(plan.begun, {})

    reason = "it was read again" if is_read_again else "unable to locate ObjectStore plugin"
    assert reason in ended.status.failure_reason


async def test_a_restore_finds_its_backup_and_its_location(world: World) -> None:
    world.add_location()
    world.cluster.add("backups", "b1", spec={"storageLocation": "default"}, labels={"a": "b"})
    world.cluster.add("backups", "b2", labels={"velero.io/schedule-name": "s"})
    lookups = ClusterBackups(world.scope, world.locations)

    assert (await lookups.backup("b1")).metadata.labels == {"a": "b"}
    assert [found.metadata.name for found in await lookups.backups_of_schedule("s")] == ["b2"]


@pytest.mark.spec("RST-005")
async def test_a_restore_says_what_of_its_source_is_missing(world: World) -> None:
    world.add_location("broken", provider="nobody")
    for name, location in (("no-location", "gone"), ("broken", "broken"), ("odd", 7)):
        world.cluster.add("backups", name, spec={"storageLocation": location})
    lookups = ClusterBackups(world.scope, world.locations)
    texts = {}
    world.cluster.add("backups", "new", spec={"storageLocation": ""})
    hidden = {"pinnace.io/hidden-details": "true"}
    world.cluster.add("backups", "hidden", spec={"storageLocation": "broken"}, annotations=hidden)
    for name in ("backup-1", "no-location", "broken", "odd", "new", "hidden"):
        with pytest.raises(BackupLookupError) as caught:
            await lookups.backup(name)
        texts[name] = str(caught.value)

    assert texts == {
        "backup-1": 'backup.velero.io "backup-1" not found',
        "no-location": 'BackupStorageLocation.velero.io "gone" not found',
        "broken": "unable to locate ObjectStore plugin named velero.io/nobody",
        "odd": "Backup: spec.storageLocation: Expected `str`, got `int`",
        "new": "backup new has not begun, its phase is New: wait for its end",
        "hidden": "the details of backup hidden are hidden in its location (encryption.hideDetails), and a"
        " server does not open them: restore it by `restore create --location URL --identity-file FILE`",
    }


async def test_a_restore_waits_for_an_api_server_out_of_reach(world: World) -> None:
    lookups = ClusterBackups(world.scope, world.locations)
    world.cluster.before = fail_always()

    with pytest.raises(ConnectionFailed):
        await lookups.backup("b1")
    with pytest.raises(ConnectionFailed):
        await lookups.backups_of_schedule("s")

    world.cluster.before = fail_always("list", error=DENIED)
    with pytest.raises(BackupLookupError, match="you may not"):
        await lookups.backups_of_schedule("s")


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


@pytest.mark.spec("SRV-012")
async def test_credentials_are_private_files_that_follow_their_secret(world: World, tmp_path: Path) -> None:
    config = {"region": "r", "s3Url": "http://127.0.0.1:1"}
    world.add_location(provider="aws", config=config, credential={"name": "credential", "key": "key2"})
    secret = world.cluster.add("secrets", "credential", data={"key1": encoded("1"), "key2": encoded(FIRST)})

    async with world.locations.open("default"):
        path = tmp_path / "credentials" / NAMESPACE / "credential-key2"
        assert path.read_text() == FIRST
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    secret["data"]["key2"] = encoded(SHORTER)
    world.cluster.put(secret)
    async with world.locations.open("default"):
        assert path.read_text() == SHORTER


FIRST = "[default]\naws_access_key_id = first\naws_secret_access_key = secret\n"
SHORTER = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"


@pytest.mark.spec("SRV-012")
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, 'unable to get key for secret: Secret "non-existent-secret" not found'),
        ({"other": ""}, '"non-existent-secret" secret is missing data for key "key"'),
        ({"key": "%"}, "Secret non-existent-secret holds something that is not base64"),
    ],
    ids=["no Secret", "no key", "damaged"],
)
async def test_missing_credentials_are_an_error_with_the_reason(
    world: World, data: dict[str, str] | None, text: str
) -> None:
    world.add_location(credential={"name": "non-existent-secret", "key": "key"})
    if data is not None:
        world.cluster.add("secrets", "non-existent-secret", data=data)

    with pytest.raises(StoreConfigError) as caught:
        await world.locations.acquire("default")

    assert str(caught.value).startswith("unable to get credentials: ")
    assert text in str(caught.value)


async def test_the_error_of_an_unreadable_secret_does_not_show_its_content(world: World) -> None:
    world.add_location(credential={"name": "s", "key": "key"})
    world.cluster.before = fail_always("get", "secrets", error=DENIED)

    with pytest.raises(StoreConfigError, match="you may not"):
        await world.locations.acquire("default")


async def test_a_location_that_is_gone_or_unreadable_is_an_error(world: World) -> None:
    with pytest.raises(NotFound):
        await world.locations.acquire("gone")
    world.add_location("broken", validationFrequency="often")
    with pytest.raises(StorageError, match="backup storage location broken cannot be read"):
        await world.locations.acquire("broken")
