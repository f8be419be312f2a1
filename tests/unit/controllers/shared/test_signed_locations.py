"""A server that signs: its key is in a Secret, its newest backups are in an annotation."""

import base64
import shutil
from pathlib import Path

import pytest

from pinnace.age.x25519 import X25519Identity
from pinnace.api.labels import NEWEST_SIGNED
from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import text
from pinnace.api.phases import BackupPhase
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup, BackupSpec, BackupStatus
from pinnace.controllers.storage_location import StorageLocationReconciler
from pinnace.controllers.sync.backup_sync import BackupSync
from pinnace.controllers.sync.location import Caches
from pinnace.kube.errors import Conflict
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, SCHEDULES
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.errors import StorageError, StoreConfigError
from pinnace.storage.newest import links_of_text
from pinnace.storage.own_settings import (
    HIDE_DETAILS,
    KEY_FILE,
    KEY_SECRET,
    KMS_KEYS,
    RECIPIENTS,
    REQUIRE_SIGNATURE,
    TRUSTED_KEYS,
)
from tests.unit.controllers.fakes import Cached, World, fail_always, fail_once, key

KEY = Ed25519Signer.generate()


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.add_location(config={"path": str(tmp_path), KEY_SECRET: "keys", REQUIRE_SIGNATURE: "true"})
    data = {"signing-key.pem": base64.b64encode(KEY.pem()).decode()}
    world.cluster.add("secrets", "keys", data=data)
    return world


async def put(world: World, name: str) -> None:
    contents = world.folder / "tarball"
    contents.write_bytes(b"tarball")
    backup = Backup(
        metadata=ObjectMeta(name=name, namespace="velero"),
        spec=BackupSpec(storage_location="default"),
        status=BackupStatus(phase=BackupPhase.COMPLETED),
    )
    async with world.locations.open("default") as store:
        await store.put_backup(BackupFiles(name=name, metadata=encode_metadata(backup), contents=contents))


def noted(world: World) -> list[str]:
    location = world.cluster.stored(BACKUP_STORAGE_LOCATIONS.name, "default")
    return [link.backup for link in links_of_text(text(location, "metadata", "annotations", NEWEST_SIGNED))]


async def test_the_server_signs_with_the_key_of_a_secret_and_notes_the_newest_backup(world: World) -> None:
    await put(world, "b1")
    assert noted(world) == ["b1"]
    await put(world, "b2")
    assert noted(world) == ["b2"]

    async with world.locations.open("default") as store:
        manifest = await store.manifest("b2")
        assert manifest is not None
        assert [link.backup for link in manifest.predecessors] == ["b1"]
        assert [link.sha256 for link in await store.noted_newest()] == [manifest.digest]


async def test_a_location_that_others_patch_is_patched_again(world: World) -> None:
    conflict = Conflict(409, reason="Conflict", message="changed")
    world.cluster.before = fail_once("patch", error=conflict)
    await put(world, "b1")
    assert noted(world) == ["b1"]

    world.cluster.before = fail_always("patch", error=conflict)
    await put(world, "b2")  # it is stored and signed: that the note is missing is a warning
    world.cluster.before = lambda *_: None
    assert noted(world) == ["b1"]
    async with world.locations.open("default") as store:
        assert await store.manifest("b2") is not None


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({KEY_SECRET: "none"}, 'signing key: .* Secret "none" not found'),
        ({KEY_SECRET: "keys/other.pem"}, 'missing data for key "other.pem"'),
        ({KEY_FILE: "/etc/hostname", REQUIRE_SIGNATURE: "true"}, "no key is trusted"),  # no file of the pod
        ({TRUSTED_KEYS: "x"}, "key 1"),
        ({RECIPIENTS: "age1x"}, "config.encryption.recipients: "),
        (
            {RECIPIENTS: "age1x", HIDE_DETAILS: "true"},
            "config.encryption.hideDetails is for",
        ),
    ],
)
async def test_a_location_whose_keys_cannot_be_used_is_not_opened(
    world: World, config: dict[str, str], said: str
) -> None:
    world.edit(BACKUP_STORAGE_LOCATIONS.name, "default", config={"path": str(world.folder), **config})

    with pytest.raises(StoreConfigError, match=said):
        async with world.locations.open("default"):
            pass


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        (RECIPIENTS, str(X25519Identity.generate().recipient), ""),
        (RECIPIENTS, "age1yubikey1q2w3e4r5t6y7u8", "config.encryption.recipients"),
        (KMS_KEYS, "hashivault://main", "uses keys of its own cloud only, with its own credentials"),
        (
            KMS_KEYS,
            "awskms:///arn:aws:kms:eu-central-1:111122223333:key/1",
            "uses keys of its own cloud only",
        ),
    ],
)
async def test_a_location_of_a_tenant_takes_simple_recipients_and_no_rights_of_the_server(
    world: World, setting: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "VAULT_TOKEN"):
        monkeypatch.setenv(name, "of the server")
    config = {"path": str(world.folder), setting: value}
    world.edit(BACKUP_STORAGE_LOCATIONS.name, "default", config=config)
    metadata = world.cluster.stored("backupstoragelocations", "default")["metadata"]
    metadata["annotations"] = {Origin.LOCATION.namespace_annotation: "tenant"}

    if not said:
        async with world.locations.open("default") as store:
            assert store.encrypts
        return
    with pytest.raises(StorageError, match=said):
        async with world.locations.open("default"):
            pass


async def test_a_forged_backup_is_not_made_known_until_its_key_is_trusted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    other = Ed25519Signer.generate()
    await put(world, "ours")
    secret = world.cluster.stored("secrets", "keys")
    secret["data"]["signing-key.pem"] = base64.b64encode(other.pem()).decode()
    await put(world, "theirs")
    secret["data"]["signing-key.pem"] = base64.b64encode(KEY.pem()).decode()
    sync = BackupSync(
        world.scope,
        world.locations,
        locations=Cached(world, BACKUP_STORAGE_LOCATIONS),
        caches=Caches(backups=Cached(world, BACKUPS), schedules=Cached(world, SCHEDULES)),
        default_location="default",
        period=Duration.minutes(1),
    )

    await sync.run()
    assert set(world.all_of("backups")) == {"ours"}
    async with world.locations.open("default") as store:
        with pytest.raises(SignatureRefused):
            await store.read_backup("theirs")

    config = {**world.cluster.stored(BACKUP_STORAGE_LOCATIONS.name, "default")["spec"]["config"]}
    world.edit(BACKUP_STORAGE_LOCATIONS.name, "default", config=config | {TRUSTED_KEYS: str(other.public)})
    world.clock.turn(60)
    await sync.run()
    assert set(world.all_of("backups")) == {"ours", "theirs"}


async def test_the_server_says_once_that_its_newest_backup_has_vanished_and_counts_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await put(world, "b1")
    controller = StorageLocationReconciler(
        world.scope, world.locations, default_location="other", validation_frequency=Duration.minutes(1)
    )
    await controller.reconcile(key("default"))
    shutil.rmtree(world.folder / "bucket-default/backups/b1")
    for _ in range(2):
        world.clock.turn(60)
        await controller.reconcile(key("default"))

    counts = [call[3] for call in world.metrics.calls if call[0] == "signed_backups"]
    assert counts == [0, 1, 1]
    assert caplog.text.count("A signed backup has vanished") == 1
    assert world.cluster.status(BACKUP_STORAGE_LOCATIONS.name, "default")["phase"] == "Available"
