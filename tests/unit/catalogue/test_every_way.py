"""Every way of saving volume data, by every writer, before every consumer: all must find the same data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import orjson
import pytest

import pinnace.cli.backup.deletion as by_command
import pinnace.operations.deletion as by_server
import pinnace.operations.verification.volumes as verification
from pinnace.age.identities import Identities
from pinnace.age.recipients import parse_recipients
from pinnace.age.x25519 import X25519Identity
from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.api.velero.backup_repository import BackupRepository
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationSpec
from pinnace.archive.reader import ArchiveIndex
from pinnace.catalogue.reading import read_pod_volumes, read_records
from pinnace.catalogue.records import BackupRecords
from pinnace.cli.common.options import DeleteOptions
from pinnace.cli.restore import preview
from pinnace.cli.settings import Settings
from pinnace.client.location import LocationBackend
from pinnace.controllers.deletion.scope import RecordedPodVolumes
from pinnace.controllers.shared.pod_volumes import PodVolumes, pod_volumes_in_cluster
from pinnace.csi.snapshots import FEATURE, SnapshotKinds
from pinnace.kube.errors import ConfigError
from pinnace.operations.deletion import DeleteOperation, Snapshots
from pinnace.restore.volumes.saved_data import Abilities, VolumeDataKeeper
from pinnace.runs.activity import Activity
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.key_errors import IdentityMissing
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.locks import RepositoryLocks
from pinnace.volumes.uploaders import Uploaders
from tests.unit.catalogue.cases import WAYS
from tests.unit.catalogue.ways import InRepository, Way
from tests.unit.controllers.fakes import World

LOCATION = BackupStorageLocation(
    metadata=ObjectMeta(name="default"), spec=BackupStorageLocationSpec(provider="aws")
)
LOCATION.spec.config = {"region": "r", "s3Url": "https://store"}
SETTINGS = Settings(
    namespace="velero",
    kubeconfig=None,
    kubecontext=None,
    location=None,
    features=frozenset(),
    colour=False,
    ca_cert="",
)
pytestmark = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.title)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the buckets of real servers are, which no consumer here writes to."""
    return tmp_path_factory.mktemp("golden")


@pytest.fixture
async def store(way: Way, tmp_path: Path, unpacked: Path) -> BackupStore:
    return await way.store(tmp_path, unpacked)


@pytest.fixture(params=["plain", "encrypted, no identity", "encrypted"])
async def deletable(
    way: Way, store: BackupStore, tmp_path: Path, request: pytest.FixtureRequest
) -> BackupStore:
    """The same backup as a deletion may find it."""
    if request.param == "plain":
        return store
    identity = X25519Identity.generate()
    made = await way.encrypted(tmp_path, store, *parse_recipients(str(identity.recipient)))
    if request.param == "encrypted":
        return made.opened_by(Identities.parse(identity.secret_text().encode()))
    with pytest.raises(IdentityMissing):
        await made.read_snapshots(way.backup)
    return made


def check_left(way: Way, left: Sequence[str]) -> None:
    """Check what a deletion would leave behind; a plain list tells how much it is, without names."""
    if any(each.endswith("of those whose names are encrypted") for each in left):
        assert len(left) == len(way.left)
    else:
        assert sorted(left) == sorted(way.left)


class Seen:
    """What a consumer did."""

    def __init__(self) -> None:
        self.repository: list[InRepository] = []
        self.csi: list[tuple[str, str, tuple[str, str] | None]] = []
        self.native: list[str] = []

    def keep_csi(self, snapshots: Any) -> None:
        self.csi += [(each.driver, each.handle, each.deletion_secret) for each in snapshots]

    def keep_native(self, records: Any) -> None:
        self.native += [each.status.provider_snapshot_id for each in records]

    def check(self, way: Way, *, live: bool = False) -> None:
        assert sorted(self.repository) == sorted(way.repository | (way.only_live if live else set()))
        assert sorted(self.csi, key=str) == sorted(way.csi, key=str)
        assert sorted(self.native) == sorted(way.native)


@pytest.mark.spec("AFT-119", "AFT-176")
async def test_deletion_by_a_command(
    way: Way, deletable: BackupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, warned = Seen(), list[str]()

    def no_cluster(_settings: Settings) -> None:
        raise ConfigError("none")

    async def forget(_self: Uploaders, place: Repository, snapshot: str) -> None:
        seen.repository.append((place.uploader, place.namespace, snapshot))

    monkeypatch.setattr(by_command, "open_cluster", no_cluster)
    monkeypatch.setattr(by_command, "say", lambda text, **_: warned.append(text))
    monkeypatch.setattr(Uploaders, "forget", forget)
    monkeypatch.setenv("RESTIC_PASSWORD", "x")
    options = DeleteOptions(names=[way.backup], confirm=True, all=False, selector=None, force=True)

    await by_command.delete_volume_data(SETTINGS, LocationBackend(deletable, LOCATION), way.backup, options)

    told = [text.partition("is left behind: ")[2] for text in warned]
    in_clusters = [
        *(f"CSI snapshot {handle} of {driver}" for driver, handle, _ in way.csi),
        *(f"volume snapshot {each}" for each in way.native),
    ]
    seen.check(Way(title="", repository=way.repository))
    (by_cluster,) = [text for text in told if "only through a cluster" in text] or [""]
    assert sorted(filter(None, by_cluster.partition(" can be")[0].split(", "))) == sorted(in_clusters)
    (left,) = [text for text in told if "this version cannot" in text] or [""]
    check_left(way, [each for each in left.removeprefix("this version cannot delete ").split(", ") if each])
    assert len(told) == bool(by_cluster) + bool(left)


class Ready:
    """Every repository and every snapshot location is there."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def ensure(self, namespace: str, _location: str, *, uploader: str) -> BackupRepository:
        found = BackupRepository(metadata=ObjectMeta(name=f"{namespace}-{uploader}"))
        found.spec.volume_namespace, found.spec.repository_type = namespace, uploader
        return found

    async def forget(self, place: Repository, snapshot: str) -> None:
        self._seen.repository.append((place.uploader, place.namespace, snapshot))

    async def of(self, _location: str) -> "Ready":
        return self

    async def has_snapshot(self, snapshot: str) -> bool:
        self._seen.native.append(snapshot)
        return True


@pytest.mark.spec("AFT-119")
async def test_deletion_by_a_server(
    way: Way, deletable: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, world, store = Seen(), World(tmp_path), deletable
    for plural, objects in way.live.items():
        for each in objects:
            marks = {"velero.io/backup-name": way.backup}
            world.cluster.add(
                plural, each["metadata"]["name"], labels=marks, spec=each["spec"], status=each["status"]
            )

    async def delete_csi(_client: object, _kinds: object, snapshots: Any, **_: str) -> list[str]:
        seen.keep_csi(snapshots)
        return []

    async def delete_native(records: Any, _snapshotters: object) -> list[str]:
        seen.keep_native(records)
        return []

    monkeypatch.setattr(by_server, "delete_csi_snapshots", delete_csi)
    monkeypatch.setattr(by_server, "delete_snapshots", delete_native)
    monkeypatch.setattr(by_server, "snapshotters_of", lambda _context: Ready(seen))
    monkeypatch.setattr(SnapshotKinds, "served", lambda _discovery: "kinds")
    backup = Backup(metadata=ObjectMeta(name=way.backup), spec=BackupSpec(storage_location="default"))
    context = world.scope.run_context(discovery=cast(Any, None), store=store, plugins=cast(Any, None))
    context = msgspec.structs.replace(context, features=frozenset({FEATURE}))
    volumes = PodVolumes(world.scope, cast(Any, Ready(seen)), cast(Any, Ready(seen)), RepositoryLocks())
    operation = DeleteOperation(
        Snapshots(context, way.backup), RecordedPodVolumes(world.scope, store, backup, volumes)
    )

    check_left(way, await operation.obstacles())
    assert await operation.delete() == []
    seen.check(way, live=True)


async def test_verification(way: Way, store: BackupStore, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen()

    async def look_up(_location: object, wanted: Any, *_: object) -> object:
        seen.repository += [(each.uploader, each.namespace, each.snapshot) for each in wanted]
        return verification_of_nothing()

    async def look_up_csi(_client: object, _kinds: object, snapshots: Any, **_: str) -> object:
        seen.keep_csi(snapshots)
        return verification_of_nothing()

    def verification_of_nothing() -> object:
        return type("Found", (), {"missing": [], "unknown": [], "read": 0})

    async def cluster() -> Any:
        return verification.ClusterView(
            client=cast(Any, None), discovery=cast(Any, None), snapshotters=cast(Any, Ready(seen))
        )

    monkeypatch.setattr(verification, "look_up_snapshots", look_up)
    monkeypatch.setattr(verification, "look_up_csi", look_up_csi)
    monkeypatch.setattr(verification, "SnapshotLookup", Ready)
    monkeypatch.setattr(SnapshotKinds, "served", lambda _discovery: "kinds")
    lookup = verification.VolumeLookup(
        location=LOCATION, store=store, access=cast(Any, None), cluster=cluster
    )

    found = await lookup.findings(way.backup)

    seen.check(way)
    (others,) = [each.details for each in found if each.name == "other volume data"] or [""]
    assert sorted(filter(None, others.partition(": ")[2].split(", "))) == sorted(way.left)
    kinds = {
        *(f"{uploader} snapshots" for uploader, _, _ in way.repository),
        *(["native snapshots"] if way.native else []),
        *(["CSI snapshots in storage"] if way.csi else []),
        *(["other volume data"] if way.left else []),
    }
    assert {each.name for each in found} == kinds


async def records_of(way: Way, store: BackupStore, folder: Path, by: str) -> BackupRecords:
    """The records as a restore gets them: by a server, by a command, and by a dry run of a command."""
    name = way.backup
    if by == "dry run":
        backup = Backup(metadata=ObjectMeta(name=name))
        return (await preview._contents(LocationBackend(store, LOCATION), backup, folder, Activity())).records
    records, world = await read_records(store, name), World(folder)
    if by == "command":
        saved = await read_pod_volumes(store, name, records.infos)
    else:
        objects = way.live.get("podvolumebackups") or await store.read_pod_volume_backups(name)
        for each in objects:
            volume = each["metadata"]["name"]
            made = world.cluster.add("podvolumebackups", volume, labels={labels.BACKUP_NAME: name})
            made.update(spec=each["spec"], status=each["status"])
            made["metadata"]["annotations"] = each["metadata"].get("annotations", {})
            world.cluster.put(made)
        saved = await pod_volumes_in_cluster(world.scope, store, name, records.infos)
    return msgspec.structs.replace(records, pod_volumes=saved)


@pytest.mark.spec("AFT-176")
@pytest.mark.parametrize("by", ["server", "command", "dry run"])
async def test_restore(way: Way, store: BackupStore, tmp_path: Path, by: str) -> None:
    contents, able = tmp_path / "contents.tar.gz", by != "command"
    await store.download_contents(way.backup, contents)
    records = await records_of(way, store, tmp_path, by)
    can = Abilities(pod_volumes=able, csi=able, csi_is_on=able, moved_data=able)
    restore = Restore(spec=RestoreSpec(backup_name=way.backup))
    with await ArchiveIndex.open(contents, tmp_path) as archive:
        keeper = VolumeDataKeeper.of(records, archive, restore, can)
        pods = pods_of(archive)

    reasons = {claim: loss.reason for claim, loss in keeper.lost.items()}
    assert reasons == dict(way.lost if able else way.lost_without)
    assert {claim: volume.snapshot for claim, volume in keeper.moved.items()} == (way.moved if able else {})
    assert keeper.snapshotted == way.snapshotted
    found = {name: keeper.pod_volumes.snapshots(pod, namespace) for (namespace, name), pod in pods.items()}
    assert {
        name: {volume: (each.uploader, each.id, each.size_bytes) for volume, each in snapshots.items()}
        for name, snapshots in found.items()
        if snapshots
    } == way.pods
    assert [
        each.status.provider_snapshot_id for each in records.native if each.status.provider_snapshot_id
    ] == [*way.native]


def pods_of(archive: ArchiveIndex) -> Mapping[tuple[str, str], Any]:
    return {
        (namespace, name): orjson.loads(archive.read("pods", namespace, name))
        for namespace in archive.namespaces("pods")
        for name in archive.names("pods", namespace)
    }
