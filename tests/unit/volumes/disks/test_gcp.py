"""Snapshots of GCE disks, against a scripted service that answers as `gce_answers` says."""

import base64
import json
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

from pinnace.storage.errors import StorageError, StoreConfigError
from pinnace.store_access.requests import RequestPolicy
from pinnace.volumes.disks.gcp import DiskLocation, GCESnapshotter, place_of, region_of
from pinnace.volumes.native.snapshotters import SnapshotError
from tests.support.clock import LeapingClock
from tests.support.stores.scripted_cloud import Cloud
from tests.unit.volumes.disks.gce_answers import disk, failed, operation, refusal, snapshot

QUICK = RequestPolicy(attempts=3, base_seconds=0.0, request_seconds=10.0)
ZONE = "europe-west1-b"
DISKS = "/compute/v1/projects/shop/zones/europe-west1-b/disks"
SNAPSHOTS = "/compute/v1/projects/shop/global/snapshots"
HERE = "projects/shop/zones/europe-west1-b"
GLOBAL = "projects/shop/global"
TYPE = f"https://www.googleapis.com/compute/v1/{HERE}/diskTypes/pd-ssd"
MISSING = refusal(404, "notFound", "The resource was not found")
FORBIDDEN = refusal(
    403, "forbidden", "Required 'compute.globalOperations.get' permission for 'projects/shop'"
)
TAGS = {"velero.io/backup": "b1", "velero.io/pv": "pv1"}

Open = Callable[..., Awaitable[GCESnapshotter]]


@pytest.fixture
def opened(cloud: Cloud, key_file: Path) -> Open:
    async def open_with(**config: str) -> GCESnapshotter:
        environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(key_file)}
        snapshotter = GCESnapshotter(environ=environ, policy=QUICK, endpoint=cloud.url, clock=LeapingClock())
        await snapshotter.init(config)
        return snapshotter

    return open_with


def snapshot_path(name: str, project: str = "shop") -> str:
    return f"/compute/v1/projects/{project}/global/snapshots/{name}"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that a script can know: every uuid is the same."""
    monkeypatch.setattr("uuid.uuid4", lambda: uuid.UUID(UUID))


UUID = "00000000-0000-4000-8000-000000000000"


def operations(where: str, name: str = "op1") -> str:
    return f"/compute/v1/projects/{where}/operations/{name}"


@pytest.mark.usefixtures("names")
class TestSnapshots:
    NEW = f"data-{UUID}"

    async def test_a_snapshot_is_taken_when_it_is_uploading(self, cloud: Cloud, opened: Open) -> None:
        description = '{"kubernetes.io/created-for": "x"}'
        cloud.on("GET", f"{DISKS}/data", disk(HERE, "data", description=description))
        cloud.on("POST", SNAPSHOTS, operation(GLOBAL))
        cloud.on("GET", operations("shop/global"), operation(GLOBAL))
        cloud.on("GET", snapshot_path(self.NEW), MISSING, status=404)
        cloud.on("GET", snapshot_path(self.NEW), snapshot("shop", self.NEW, status="CREATING"))
        cloud.on("GET", snapshot_path(self.NEW), snapshot("shop", self.NEW, status="UPLOADING"))
        snapshotter = await opened(snapshotLocation="eu")

        assert await snapshotter.create_snapshot("data", ZONE, TAGS) == self.NEW

        (asked,) = cloud.requests("POST", SNAPSHOTS)
        assert asked.headers["Authorization"] == "Bearer google-token"
        assert asked.query == {"requestId": UUID}
        assert asked.json["name"] == self.NEW
        assert asked.json["sourceDisk"] == f"{HERE}/disks/data"
        assert asked.json["storageLocations"] == ["eu"]
        assert json.loads(asked.json["description"]) == {"kubernetes.io/created-for": "x", **TAGS}
        assert len(cloud.requests("GET", snapshot_path(self.NEW))) == 3

    async def test_a_snapshot_of_a_regional_disk_is_taken_into_another_project(
        self, cloud: Cloud, opened: Open
    ) -> None:
        region, vault = "projects/shop/regions/europe-west1", "projects/vault/global"
        cloud.on("GET", f"/compute/v1/{region}/disks/data", disk(region, "data", description="mine"))
        cloud.on("POST", f"/compute/v1/{vault}/snapshots", operation(vault))
        cloud.on("GET", operations("vault/global"), operation(vault, "DONE"))
        snapshotter = await opened(project="vault")

        await snapshotter.create_snapshot("data", "europe-west1-b__europe-west1-c", TAGS)

        (asked,) = cloud.requests("POST", f"/compute/v1/{vault}/snapshots")
        assert asked.json["sourceDisk"] == f"{region}/disks/data"
        assert json.loads(asked.json["description"]) == TAGS
        assert "storageLocations" not in asked.json

    async def test_a_long_name_is_cut(self, cloud: Cloud, opened: Open) -> None:
        name = "d" * 60
        cloud.on("GET", f"{DISKS}/{name}", disk(HERE, name))
        cloud.on("POST", SNAPSHOTS, operation(GLOBAL))
        cloud.on("GET", operations("shop/global"), operation(GLOBAL, "DONE"))

        made = await (await opened()).create_snapshot(name, ZONE, {})
        assert (len(made), made) == (63, f"{'d' * 26}-{UUID}")

    @pytest.mark.parametrize(
        ("outcome", "text"),
        [
            (
                failed(GLOBAL, "QUOTA_EXCEEDED", "Quota 'SNAPSHOTS' exceeded."),
                r"disk data: Quota 'SNAPSHOTS' exceeded. \(QUOTA_EXCEEDED\)",
            ),
            (
                {**failed(GLOBAL, "", ""), "error": {"errors": []}},
                r"disk data: FORBIDDEN \(403\)",
            ),
        ],
        ids=["a reason", "only a status"],
    )
    async def test_an_operation_that_fails_is_reported(
        self, cloud: Cloud, opened: Open, outcome: dict[str, Any], text: str
    ) -> None:
        cloud.on("GET", f"{DISKS}/data", disk(HERE, "data"))
        cloud.on("POST", SNAPSHOTS, operation(GLOBAL))
        cloud.on("GET", operations("shop/global"), outcome)
        with pytest.raises(SnapshotError, match=text):
            await (await opened()).create_snapshot("data", ZONE, TAGS)

    async def test_a_snapshot_that_fails_is_reported(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", f"{DISKS}/data", disk(HERE, "data"))
        cloud.on("POST", SNAPSHOTS, operation(GLOBAL))
        cloud.on("GET", operations("shop/global"), operation(GLOBAL))
        cloud.on("GET", snapshot_path(self.NEW), snapshot("shop", self.NEW, status="FAILED"))
        with pytest.raises(SnapshotError, match="failed"):
            await (await opened()).create_snapshot("data", ZONE, TAGS)

    async def test_without_the_right_to_see_operations_the_state_of_the_snapshot_is_read(
        self, cloud: Cloud, opened: Open
    ) -> None:
        cloud.on("GET", f"{DISKS}/data", disk(HERE, "data"))
        cloud.on("POST", SNAPSHOTS, operation(GLOBAL))
        cloud.on("GET", operations("shop/global"), FORBIDDEN, status=403)
        cloud.on("GET", snapshot_path(self.NEW), snapshot("shop", self.NEW, status="CREATING"))
        cloud.on("GET", snapshot_path(self.NEW), snapshot("shop", self.NEW))

        assert await (await opened()).create_snapshot("data", ZONE, TAGS) == self.NEW

    @pytest.mark.parametrize(
        ("status", "reason"), [(503, "backendError"), (403, "rateLimitExceeded")], ids=["busy", "too fast"]
    )
    async def test_a_second_attempt_is_the_same_request(
        self, cloud: Cloud, opened: Open, status: int, reason: str
    ) -> None:
        cloud.on("GET", f"{DISKS}/data", disk(HERE, "data"))
        cloud.on("POST", SNAPSHOTS, refusal(status, reason, "Later"), status=status)
        cloud.on("POST", SNAPSHOTS, operation(GLOBAL))
        cloud.on("GET", operations("shop/global"), operation(GLOBAL, "DONE"))

        await (await opened()).create_snapshot("data", ZONE, TAGS)

        first, second = cloud.requests("POST", SNAPSHOTS)
        assert (first.query, first.body) == (second.query, second.body)

    async def test_deletion_is_waited_for(self, cloud: Cloud, opened: Open) -> None:
        vault = "projects/vault/global"
        cloud.on("DELETE", snapshot_path("s1", "vault"), operation(vault, kind="delete"))
        cloud.on("GET", operations("vault/global"), operation(vault, kind="delete"))
        cloud.on("GET", operations("vault/global"), operation(vault, "DONE", kind="delete"))
        cloud.on("GET", snapshot_path("s1", "vault"), snapshot("vault", "s1", status="DELETING"))
        snapshotter = await opened(project="vault")

        await snapshotter.delete_snapshot("s1")
        await snapshotter.delete_snapshot("is not there")

        assert len(cloud.requests("DELETE", snapshot_path("s1", "vault"))) == 1
        assert len(cloud.requests("GET", operations("vault/global"))) == 2

    async def test_whether_it_exists_is_looked_up(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", snapshot_path("s1"), snapshot("shop", "s1", status="READY"))
        cloud.on("GET", snapshot_path("s2"), snapshot("shop", "s2", status="FAILED"))
        cloud.on("GET", snapshot_path("s3"), MISSING, status=404)
        cloud.on("GET", snapshot_path("s4"), FORBIDDEN, status=403)
        snapshotter = await opened()

        assert [await snapshotter.has_snapshot(name) for name in ("s1", "s2", "s3")] == [True, False, False]
        with pytest.raises(StorageError, match="cannot look at snapshot s4"):
            await snapshotter.has_snapshot("s4")

    async def test_a_deletion_that_fails_is_reported(self, cloud: Cloud, opened: Open) -> None:
        message = "The snapshot resource is already being used by 'disks/new'"
        cloud.on("DELETE", snapshot_path("s1"), operation(GLOBAL, kind="delete"))
        cloud.on(
            "GET", operations("shop/global"), failed(GLOBAL, "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", message)
        )
        with pytest.raises(SnapshotError, match=f"cannot delete snapshot s1: {message} "):
            await (await opened()).delete_snapshot("s1")

    @pytest.mark.parametrize(
        ("status", "body"), [(403, FORBIDDEN), (404, MISSING)], ids=["forbidden", "gone"]
    )
    async def test_without_its_operation_a_deletion_ends_with_the_snapshot(
        self, cloud: Cloud, opened: Open, status: int, body: dict[str, Any]
    ) -> None:
        cloud.on("DELETE", snapshot_path("s1"), operation(GLOBAL, kind="delete"))
        cloud.on("GET", operations("shop/global"), body, status=status)
        cloud.on("GET", snapshot_path("s1"), snapshot("shop", "s1", status="DELETING"))
        cloud.on("GET", snapshot_path("s1"), MISSING, status=404)

        await (await opened()).delete_snapshot("s1")

        assert len(cloud.requests("GET", snapshot_path("s1"))) == 2

    async def test_foreign_answers_are_refused(self, cloud: Cloud, opened: Open) -> None:
        """A proxy that answers `{}` to anything."""
        snapshotter = await opened()
        cloud.on("GET", f"{DISKS}/data", {})
        with pytest.raises(SnapshotError, match="not the resource that was asked for"):
            await snapshotter.create_snapshot("data", ZONE, TAGS)
        cloud.on("GET", f"{DISKS}/other", disk(HERE, "other"))
        cloud.on("POST", SNAPSHOTS, {})
        with pytest.raises(SnapshotError, match="not an operation of the compute service"):
            await snapshotter.create_snapshot("other", ZONE, TAGS)
        cloud.on("DELETE", snapshot_path("s1"), {})
        with pytest.raises(SnapshotError, match="not an operation of the compute service"):
            await snapshotter.delete_snapshot("s1")
        cloud.on("GET", snapshot_path("s1"), {})
        with pytest.raises(SnapshotError, match="not the resource that was asked for"):
            await snapshotter.has_snapshot("s1")

    async def test_a_refusal_is_reported(self, cloud: Cloud, opened: Open) -> None:
        message = "Required 'compute.snapshots.delete' permission for 's1'"
        cloud.on("DELETE", snapshot_path("s1"), refusal(403, "forbidden", message), status=403)
        with pytest.raises(StorageError, match=f"cannot delete snapshot s1: {message}$"):
            await (await opened()).delete_snapshot("s1")
        assert len(cloud.requests("DELETE", snapshot_path("s1"))) == 1


@pytest.mark.usefixtures("names")
class TestRestoredDisks:
    SELF_LINK = "https://www.googleapis.com/compute/v1/projects/shop/global/snapshots/s1"
    NEW = f"restore-{UUID}"

    async def test_disks_are_made_where_the_old_ones_were(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", snapshot_path("s1"), snapshot("shop", "s1", description="{}"))
        cloud.on("POST", DISKS, operation(HERE))
        cloud.on("GET", operations(f"shop/zones/{ZONE}"), operation(HERE))
        cloud.on("GET", operations(f"shop/zones/{ZONE}"), operation(HERE, "DONE"))
        cloud.on("GET", f"{DISKS}/{self.NEW}", disk(HERE, self.NEW, status="RESTORING"))

        made = await (await opened()).create_volume_from_snapshot("s1", TYPE, ZONE, None)

        assert made == self.NEW
        (asked,) = cloud.requests("POST", DISKS)
        assert asked.json == {
            "name": made,
            "sourceSnapshot": self.SELF_LINK,
            "description": "{}",
            "type": f"{HERE}/diskTypes/pd-ssd",
        }
        assert len(cloud.requests("GET", operations(f"shop/zones/{ZONE}"))) == 2

    async def test_regional_disks_have_copies_in_the_same_zones(self, cloud: Cloud, opened: Open) -> None:
        region = "projects/shop/regions/europe-west1"
        cloud.on("GET", snapshot_path("s1"), snapshot("shop", "s1"))
        cloud.on("POST", f"/compute/v1/{region}/disks", operation(region))
        cloud.on("GET", operations("shop/regions/europe-west1"), operation(region, "DONE"))

        zones = "europe-west1-b__europe-west1-c"
        await (await opened()).create_volume_from_snapshot("s1", "pd-standard", zones, None)

        (asked,) = cloud.requests("POST", f"/compute/v1/{region}/disks")
        assert asked.json["type"] == f"{region}/diskTypes/pd-standard"
        assert asked.json["replicaZones"] == [
            "projects/shop/zones/europe-west1-b",
            "projects/shop/zones/europe-west1-c",
        ]

    async def test_without_the_right_to_see_operations_the_state_of_the_disk_is_read(
        self, cloud: Cloud, opened: Open
    ) -> None:
        cloud.on("GET", snapshot_path("s1"), snapshot("shop", "s1"))
        cloud.on("POST", DISKS, operation(HERE))
        cloud.on("GET", operations(f"shop/zones/{ZONE}"), FORBIDDEN, status=403)
        cloud.on("GET", f"{DISKS}/{self.NEW}", disk(HERE, self.NEW, status="RESTORING"))
        cloud.on("GET", f"{DISKS}/{self.NEW}", disk(HERE, self.NEW))

        assert await (await opened()).create_volume_from_snapshot("s1", TYPE, ZONE, None) == self.NEW
        assert len(cloud.requests("GET", f"{DISKS}/{self.NEW}")) == 2

    async def test_the_type_of_a_disk_is_its_url(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", f"{DISKS}/data", disk(HERE, "data"))
        info = await (await opened()).get_volume_info("data", ZONE)

        assert (info.volume_type, info.iops) == (TYPE, None)

    async def test_a_missing_zone_is_an_error(self, opened: Open) -> None:
        with pytest.raises(SnapshotError, match="name the zone of its disk"):
            await (await opened()).get_volume_info("data", "")


class TestVolumes:
    CSI = "pd.csi.storage.gke.io"

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ({"gcePersistentDisk": {"pdName": "data"}}, "data"),
            ({"csi": {"driver": CSI, "volumeHandle": "projects/p/zones/z/disks/data"}}, "data"),
            ({"csi": {"driver": CSI, "volumeHandle": "projects/p/regions/r/disks/data"}}, "data"),
            ({"csi": {"driver": "other", "volumeHandle": "x"}}, ""),
            ({"hostPath": {}}, ""),
            ({}, ""),
        ],
    )
    async def test_the_id_of_a_volume_is_the_name_of_its_disk(
        self, opened: Open, spec: dict[str, Any], expected: str
    ) -> None:
        assert await (await opened()).get_volume_id({"spec": spec}) == expected

    @pytest.mark.parametrize(
        ("spec", "text"),
        [
            ({"gcePersistentDisk": {"pdName": ""}}, "spec.gcePersistentDisk.pdName not found"),
            ({"csi": {"driver": CSI}}, "spec.csi.volumeHandle not found"),
            ({"csi": {"driver": CSI, "volumeHandle": "data"}}, "does not name a disk"),
        ],
    )
    async def test_missing_ids_are_an_error(self, opened: Open, spec: dict[str, Any], text: str) -> None:
        with pytest.raises(SnapshotError, match=text):
            await (await opened()).get_volume_id({"spec": spec})

    async def test_a_persistent_volume_is_changed_to_another_disk(self, opened: Open) -> None:
        snapshotter = await opened()
        in_tree: dict[str, Any] = {
            "metadata": {"name": "pv"},
            "spec": {"gcePersistentDisk": {"pdName": "a", "fsType": "x"}},
        }
        csi = {"spec": {"csi": {"driver": self.CSI, "volumeHandle": "projects/old/zones/z/disks/a"}}}

        assert await snapshotter.set_volume_id(in_tree, "b") == {
            "metadata": {"name": "pv"},
            "spec": {"gcePersistentDisk": {"pdName": "b", "fsType": "x"}},
        }
        changed = await snapshotter.set_volume_id(csi, "b")
        assert changed["spec"]["csi"]["volumeHandle"] == "projects/shop/zones/z/disks/b"
        assert in_tree["spec"]["gcePersistentDisk"]["pdName"] == "a"
        with pytest.raises(SnapshotError, match=r"spec.gcePersistentDisk not found"):
            await snapshotter.set_volume_id({"spec": {}}, "b")


@pytest.mark.spec("STO-036")
def test_the_region_of_zones() -> None:
    assert region_of("us-central1-a__us-central1-b") == "us-central1"
    assert region_of("us-central1") == "us-central1"
    assert place_of("us-central1-a__us-central1-b") == DiskLocation(
        path="regions/us-central1", zones=("us-central1-a", "us-central1-b")
    )
    assert place_of("us-central1-a") == DiskLocation(path="zones/us-central1-a", zones=("us-central1-a",))
    with pytest.raises(SnapshotError, match="failed to parse region from zone 'nonsense'"):
        region_of("nonsense")


class TestConfiguration:
    async def test_unknown_keys_are_refused(self, opened: Open) -> None:
        with pytest.raises(
            SnapshotError, match=r"invalid keys \[foo\]; valid keys are \[snapshotLocation proj"
        ):
            await opened(foo="1")

    async def test_missing_credentials_are_an_error(self) -> None:
        with pytest.raises(StoreConfigError, match="no Google credentials found"):
            await GCESnapshotter(environ={"NO_GCE_CHECK": "true"}).init({})

    async def test_the_token_is_asked_for_by_a_signed_assertion(
        self, cloud: Cloud, opened: Open, rsa_key: RSAPrivateKey
    ) -> None:
        cloud.on("GET", f"{DISKS}/data", disk(HERE, "data"))
        snapshotter = await opened()
        await snapshotter.get_volume_info("data", ZONE)
        await snapshotter.get_volume_info("data", ZONE)

        (asked,) = cloud.requests("POST", "/token")
        form = parse_qs(asked.body.decode())
        content, _, signature = form["assertion"][0].rpartition(".")
        rsa_key.public_key().verify(_decoded(signature), content.encode(), PKCS1v15(), SHA256())
        claims = json.loads(_decoded(content.partition(".")[2]))
        assert claims["iss"] == "velero@shop.iam.gserviceaccount.com"
        assert claims["aud"] == f"{cloud.url}/token"
        assert claims["exp"] - claims["iat"] == 3600

    async def test_the_metadata_server_knows_account_and_project(self, cloud: Cloud) -> None:
        base = "/computeMetadata/v1"
        token = {"access_token": "metadata-token", "expires_in": 3599, "token_type": "Bearer"}
        cloud.on("GET", f"{base}/instance/service-accounts/default/token", token)
        cloud.on("GET", f"{base}/project/project-id", None)  # the scripted body is JSON
        environ = {"GCE_METADATA_HOST": cloud.url.removeprefix("http://")}
        snapshotter = GCESnapshotter(environ=environ, policy=QUICK, endpoint=cloud.url, clock=LeapingClock())
        await snapshotter.init({})
        with pytest.raises(StoreConfigError, match="do not name their project"):
            await snapshotter.get_volume_info("data", ZONE)
        cloud.on("GET", f"{base}/project/project-id", 7)
        cloud.on(
            "GET", "/compute/v1/projects/7/zones/europe-west1-b/disks/data", {"name": "data", "type": TYPE}
        )
        cloud.answers["GET", f"{base}/project/project-id"].pop(0)

        assert (await snapshotter.get_volume_info("data", ZONE)).volume_type == TYPE
        for asked in cloud.requests("GET", f"{base}/instance/service-accounts/default/token"):
            assert asked.headers["Metadata-Flavor"] == "Google"


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
