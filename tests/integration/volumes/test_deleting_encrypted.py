"""Real restic and kopia in a bucket: an encrypted backup goes with its snapshots, without an identity."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.stores.s3 import Bucket
from pinnace.age.x25519 import X25519Identity
from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.velero.pod_volume import KOPIA, RESTIC
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.backup.runner import execute_backup
from pinnace.cli.main import run
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store
from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.pods.in_flight import VolumesInFlight
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.interface import Source
from pinnace.volumes.uploaders import Uploaders
from tests.support.runs.backup_runs import prepared
from tests.support.runs.context import run_context
from tests.support.runs.without_server import s3_url, stored
from tests.support.volumes.volume_labs import PASSWORD, TAGS, Lab
from tests.unit.backup.fakes import discovery_of, two_a_page

IDENTITY = X25519Identity.generate()
NOTHING_LEFT = "backup b1 is not deleted, as data of its volumes would be left behind: its records cannot be"


class Saved:
    """What node agents have saved."""

    def __init__(self, objects: Sequence[JSONObject]) -> None:
        self.pod_volume_backups = objects

    async def request(self, pod: JSONObject, volumes: Sequence[str], log: object) -> VolumesInFlight:
        raise AssertionError("there are no pods")


def saved(name: str, uploader: str, snapshot: str) -> JSONObject:
    return {
        "metadata": {"name": f"b1-{name}", "namespace": "velero", "annotations": {labels.PVC_NAME: name}},
        "spec": {
            "pod": {"kind": "Pod", "namespace": "shop", "name": name},
            "volume": "data",
            "uploaderType": uploader,
        },
        "status": {"phase": "Completed", "snapshotID": snapshot},
    }


class Scene:
    """A bucket with repositories of both programs, in each a snapshot of the backup b1 and another one."""

    def __init__(self, lab: Lab, bucket: Bucket, program: str, folder: Path) -> None:
        self.bucket = bucket
        self.folder = folder
        self.url = s3_url(bucket, prefix="site")
        self.uploaders = Uploaders(
            {RESTIC: lab.restic, KOPIA: Kopia(lab.accesses, program=program)},
        )
        self.places = {
            RESTIC: Repository(
                identifier=lab.repository.identifier, location="default", namespace="shop", uploader=RESTIC
            ),
            KOPIA: Repository(location="default", namespace="shop", uploader=KOPIA),
        }
        self.source = Source(path=lab.volume, tags=TAGS, name="v")
        self.of_others: dict[str, frozenset[str]] = {}

    async def back_up(self) -> None:
        found = {}
        for uploader, place in self.places.items():
            await self.uploaders.init(place)
            other = (await self.uploaders.save(place, self.source)).snapshot
            found[uploader] = (await self.uploaders.save(place, self.source)).snapshot
            self.of_others[uploader] = frozenset(
                each for each in await self.uploaders.snapshot_ids(place) if each.startswith(other)
            )
        volumes = Saved([saved(f"secret-{name}", name, snapshot) for name, snapshot in found.items()])
        location = location_from_url(self.url)
        location.spec.config["encryption.recipients"] = str(IDENTITY.recipient)
        (work := self.folder / "run").mkdir()
        async with open_backup_store(location) as store:
            context = run_context(store, two_a_page(), discovery_of(), work)
            made = await execute_backup(
                prepared(), context, actions=(), collaborators=BackupCollaborators(pod_volumes=volumes)
            )
        assert made.status.phase == "Completed"

    async def left(self) -> dict[str, frozenset[str]]:
        return {uploader: await self.uploaders.snapshot_ids(place) for uploader, place in self.places.items()}

    def path(self, name: str) -> Path:
        return self.bucket.server.directory / "buckets" / self.bucket.name / "site/backups/b1" / name

    def files(self) -> set[str]:
        return {key for key in stored(self.bucket) if key.startswith("site/backups/")}


@pytest.fixture
def scene(bucket_lab: Lab, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    program = str(binaries.locate(binaries.UPLOADER)["kopia"])
    bucket_lab.fill({"file": b"content"})
    made = Scene(bucket_lab, bucket, program, tmp_path)
    for name, value in {
        "PATH": f"{Path(program).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(tmp_path / "none"),
        "PINNACE_LOCATION": made.url,
        "RESTIC_PASSWORD": PASSWORD,
        "AWS_SHARED_CREDENTIALS_FILE": str(bucket.server.credentials_file),
    }.items():
        monkeypatch.setenv(name, value)
    asyncio.run(made.back_up())
    return made


@pytest.mark.parametrize("with_identity", [False, True], ids=["no identity", "identity"])
def test_a_deletion_forgets_its_snapshots_and_no_others(
    scene: Scene, with_identity: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = asyncio.run(scene.left())
    assert {uploader: len(found) for uploader, found in before.items()} == {RESTIC: 2, KOPIA: 2}
    listed = scene.path("b1-pinnace-volumes.json").read_text()
    assert "secret" not in listed
    flags = []
    if with_identity:
        (tmp_path / "key").write_text(IDENTITY.secret_text())
        flags = ["--identity-file", str(tmp_path / "key")]

    assert run([*flags, "backup", "delete", "b1", "--confirm"]) == 0, capsys.readouterr()

    assert asyncio.run(scene.left()) == scene.of_others
    assert scene.files() == set()
    assert "WARNING" not in capsys.readouterr().err


def test_without_its_plain_list_nothing_is_deleted_before_an_identity_is_given(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.path("b1-pinnace-volumes.json").unlink()
    before, files = asyncio.run(scene.left()), scene.files()

    assert run(["backup", "delete", "b1", "--confirm"]) == 1

    said = capsys.readouterr().err
    assert NOTHING_LEFT in said
    assert "has no plain list of its volumes' data" in said
    assert "--identity-file" in said
    assert (asyncio.run(scene.left()), scene.files()) == (before, files)

    (tmp_path / "key").write_text(IDENTITY.secret_text())
    words = ["--identity-file", str(tmp_path / "key"), "backup", "delete", "b1", "--confirm"]
    assert run(words) == 0, capsys.readouterr()
    assert asyncio.run(scene.left()) == scene.of_others
    assert scene.files() == set()


def test_a_damaged_plain_list_keeps_the_backup(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    path = scene.path("b1-pinnace-volumes.json")
    path.write_bytes(path.read_bytes()[:-20])
    before, files = asyncio.run(scene.left()), scene.files()

    assert run(["backup", "delete", "b1", "--confirm"]) == 1

    assert NOTHING_LEFT in capsys.readouterr().err
    assert (asyncio.run(scene.left()), scene.files()) == (before, files)
