"""Snapshots of Azure's managed disks, against a scripted service that answers as `arm_answers` says."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import pytest

from pinnace.storage.errors import StorageError, StoreConfigError
from pinnace.store_access.requests import RequestPolicy
from pinnace.volumes.disks.azure import AzureDiskSnapshotter, azure_tags, check_snapshot_id
from pinnace.volumes.native.snapshotters import SnapshotError
from tests.support.clock import LeapingClock
from tests.support.stores.scripted_cloud import Cloud
from tests.unit.volumes.disks.arm_answers import (
    BEGUN,
    OPERATIONS,
    accepted,
    disk,
    refusal,
    snapshot,
    state,
)

QUICK = RequestPolicy(attempts=3, base_seconds=0.0, request_seconds=10.0)
GROUP = "/subscriptions/sub/resourceGroups/nodes/providers/Microsoft.Compute"
VAULT = "/subscriptions/other/resourceGroups/vault/providers/Microsoft.Compute"
UUID = "00000000-0000-4000-8000-000000000000"
TAGS = {"velero.io/backup": "b1", "velero.io/pv": "pv1"}
DISK = disk(f"{GROUP}/disks/data", tags={"team": "shop", "velero.io-pv": "old"})
NEW = f"{GROUP}/snapshots/data-{UUID}"
OPERATION = f"{OPERATIONS}/1"

Open = Callable[..., Awaitable[AzureDiskSnapshotter]]


@pytest.fixture
def environ(cloud: Cloud) -> dict[str, str]:
    cloud.on("POST", "/tenant/oauth2/v2.0/token", {"access_token": "azure-token", "expires_in": 3599})
    return {
        "AZURE_SUBSCRIPTION_ID": "sub",
        "AZURE_RESOURCE_GROUP": "nodes",
        "AZURE_TENANT_ID": "tenant",
        "AZURE_CLIENT_ID": "client",
        "AZURE_CLIENT_SECRET": "hunter2",
        "AZURE_AUTHORITY_HOST": cloud.url,
        "AZURE_RESOURCE_MANAGER_URL": cloud.url,
    }


@pytest.fixture
def opened(environ: dict[str, str]) -> Open:
    async def open_with(**config: str) -> AzureDiskSnapshotter:
        snapshotter = AzureDiskSnapshotter(environ=environ, policy=QUICK, clock=LeapingClock())
        await snapshotter.init(config)
        return snapshotter

    return open_with


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that a script can know: every uuid is the same."""
    monkeypatch.setattr("uuid.uuid4", lambda: uuid.UUID(UUID))


class TestSnapshots:
    async def test_a_snapshot_is_taken_and_waited_for(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        cloud.on("PUT", NEW, accepted(), status=202, headers=BEGUN)
        cloud.on("GET", OPERATION, state("InProgress"))
        cloud.on("GET", OPERATION, state("Succeeded"))

        assert await (await opened()).create_snapshot("data", "", TAGS) == NEW

        (asked,) = cloud.requests("PUT", NEW)
        assert asked.query == {"api-version": "2021-12-01"}
        assert asked.headers["Authorization"] == "Bearer azure-token"
        assert asked.json == {
            "location": "westeurope",
            "tags": {"team": "shop", "velero.io-backup": "b1", "velero.io-pv": "pv1"},
            "properties": {
                "creationData": {"createOption": "Copy", "sourceResourceId": f"{GROUP}/disks/data"},
                "incremental": False,
            },
        }
        first, second = cloud.requests("GET", OPERATION)
        assert first.query == second.query == {"p": "x", "api-version": "2021-12-01"}

    async def test_without_the_url_of_an_operation_the_location_is_asked(
        self, cloud: Cloud, opened: Open
    ) -> None:
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        cloud.on("PUT", NEW, accepted(), status=202, headers={"location": BEGUN["location"]})
        cloud.on("GET", OPERATION, None, status=202)
        cloud.on("GET", OPERATION, snapshot(NEW))

        assert await (await opened()).create_snapshot("data", "", TAGS) == NEW

        assert [each.query["monitor"] for each in cloud.requests("GET", OPERATION)] == ["true", "true"]

    async def test_without_any_url_the_state_of_the_resource_is_read(
        self, cloud: Cloud, opened: Open
    ) -> None:
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        cloud.on("PUT", NEW, accepted(), status=201)
        cloud.on("GET", NEW, accepted())
        cloud.on("GET", NEW, snapshot(NEW))

        assert await (await opened()).create_snapshot("data", "", TAGS) == NEW

        assert len(cloud.requests("GET", NEW)) == 2

    async def test_a_resource_that_fails_is_reported(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        cloud.on("PUT", NEW, accepted(), status=201)
        cloud.on("GET", NEW, accepted("Failed"))
        with pytest.raises(SnapshotError, match="of disk data: Azure only says Failed"):
            await (await opened()).create_snapshot("data", "", TAGS)

    async def test_incremental_snapshots_are_taken_in_another_group_and_subscription(
        self, cloud: Cloud, opened: Open
    ) -> None:
        path = f"{VAULT}/snapshots/data-{UUID}"
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        cloud.on("PUT", path, snapshot(path))
        snapshotter = await opened(subscriptionId="other", resourceGroup="vault", incremental="true")

        assert await snapshotter.create_snapshot("data", "", TAGS) == path

        (asked,) = cloud.requests("PUT", path)
        assert asked.json["properties"]["incremental"] is True
        assert asked.json["properties"]["creationData"]["sourceResourceId"] == f"{GROUP}/disks/data"

    async def test_a_long_name_is_cut(self, cloud: Cloud, opened: Open) -> None:
        long = "d" * 80
        name = f"{'d' * 43}-{UUID}"
        cloud.on("GET", f"{GROUP}/disks/{long}", disk(f"{GROUP}/disks/{long}"))
        cloud.on("PUT", f"{GROUP}/snapshots/{name}", snapshot(f"{GROUP}/snapshots/{name}"))

        made = await (await opened()).create_snapshot(long, "", {})
        assert made.endswith(f"/{name}")
        assert len(name) == 80

    async def test_an_operation_that_fails_is_reported(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        cloud.on("PUT", NEW, accepted(), status=202, headers=BEGUN)
        cloud.on("GET", OPERATION, state("Failed", error=("QuotaExceeded", "Too many snapshots.")))
        with pytest.raises(SnapshotError, match=r"of disk data: Too many snapshots. \(QuotaExceeded\)"):
            await (await opened()).create_snapshot("data", "", TAGS)

    async def test_another_servers_operation_is_not_asked_with_our_token(
        self, cloud: Cloud, opened: Open
    ) -> None:
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        elsewhere = {"azure-asyncoperation": "http://127.0.0.1:1/x"}
        cloud.on("PUT", NEW, accepted(), status=202, headers=elsewhere)
        with pytest.raises(SnapshotError, match="names another server"):
            await (await opened()).create_snapshot("data", "", TAGS)

    async def test_api_timeout_ends_the_waiting(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        cloud.on("PUT", NEW, accepted(), status=202, headers=BEGUN)
        cloud.on("GET", OPERATION, state("InProgress"))
        with pytest.raises(SnapshotError, match=r"was not done within 0.05 seconds"):
            await (await opened(apiTimeout="50ms")).create_snapshot("data", "", TAGS)

    async def test_deletion_is_waited_for(self, cloud: Cloud, opened: Open) -> None:
        path = f"{VAULT}/snapshots/s1"
        cloud.on("DELETE", path, None, status=202, headers=BEGUN)
        cloud.on("GET", OPERATION, state("InProgress"))
        cloud.on("GET", OPERATION, state("Succeeded"))

        await (await opened()).delete_snapshot(path)

        assert len(cloud.requests("DELETE", path)) == 1
        assert len(cloud.requests("GET", OPERATION)) == 2

    @pytest.mark.parametrize(
        ("status", "body"),
        [(204, None), (404, refusal("ResourceGroupNotFound", "Resource group 'vault' could not be found."))],
        ids=["no snapshot", "no group"],
    )
    async def test_deleting_a_missing_snapshot_succeeds(
        self, cloud: Cloud, opened: Open, status: int, body: dict[str, Any] | None
    ) -> None:
        path = f"{VAULT}/snapshots/s1"
        cloud.on("DELETE", path, body, status=status)

        await (await opened()).delete_snapshot(path)

        assert len(cloud.requests("DELETE", path)) == 1

    async def test_whether_it_exists_is_looked_up(self, cloud: Cloud, opened: Open) -> None:
        path = f"{VAULT}/snapshots/s"
        cloud.on("GET", f"{path}1", snapshot(f"{path}1"))
        failed = {"id": f"{path}2", "properties": {"provisioningState": "Failed"}}
        cloud.on("GET", f"{path}2", failed)
        cloud.on("GET", f"{path}3", refusal("ResourceNotFound", "The Resource was not found."), status=404)
        unseen = refusal("SubscriptionNotFound", "The subscription 'other' could not be found.")
        cloud.on("GET", f"{path}4", unseen, status=404)
        snapshotter = await opened()

        found = [await snapshotter.has_snapshot(f"{path}{number}") for number in (1, 2, 3)]

        assert found == [True, False, False]
        with pytest.raises(StorageError, match="could not be found"):
            await snapshotter.has_snapshot(f"{path}4")

    @pytest.mark.parametrize("body", [{}, None], ids=["empty object", "nothing"])
    async def test_a_foreign_answer_to_a_change_is_not_trusted(
        self, cloud: Cloud, opened: Open, body: dict[str, Any] | None
    ) -> None:
        """A proxy that answers 200 to anything: the snapshot was never taken, and is still there."""
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        cloud.on("PUT", NEW, body)
        missing = refusal("ResourceNotFound", "The Resource was not found.")
        cloud.on("GET", NEW, missing, status=404)
        snapshotter = await opened()
        with pytest.raises(StorageError, match=r"of disk data: The Resource was not found"):
            await snapshotter.create_snapshot("data", "", TAGS)

        path = f"{VAULT}/snapshots/s1"
        cloud.on("DELETE", path, body)
        cloud.on("GET", path, snapshot(path))
        with pytest.raises(SnapshotError, match="a success, but the resource still exists"):
            await snapshotter.delete_snapshot(path)

        cloud.on("DELETE", f"{path}2", body)
        cloud.on("GET", f"{path}2", missing, status=404)
        await snapshotter.delete_snapshot(f"{path}2")

    @pytest.mark.parametrize("body", [{}, DISK], ids=["empty object", "another resource"])
    async def test_a_foreign_answer_to_a_look_is_refused(
        self, cloud: Cloud, opened: Open, body: dict[str, Any]
    ) -> None:
        cloud.on("GET", f"{VAULT}/snapshots/s1", body)
        cloud.on("GET", f"{GROUP}/disks/other", body)
        snapshotter = await opened()
        with pytest.raises(SnapshotError, match="not the resource that was asked for"):
            await snapshotter.has_snapshot(f"{VAULT}/snapshots/s1")
        with pytest.raises(SnapshotError, match="not the resource that was asked for"):
            await snapshotter.create_snapshot("other", "", TAGS)

    async def test_a_subscription_that_may_not_be_seen_proves_nothing(
        self, cloud: Cloud, opened: Open
    ) -> None:
        path = f"{VAULT}/snapshots/s1"
        body = refusal("SubscriptionNotFound", "The subscription 'other' could not be found.")
        cloud.on("DELETE", path, body, status=404)
        with pytest.raises(StorageError, match=r"could not be found. \(SubscriptionNotFound\)"):
            await (await opened()).delete_snapshot(path)

    async def test_a_forgotten_operation_proves_nothing(self, cloud: Cloud, opened: Open) -> None:
        path = f"{VAULT}/snapshots/s1"
        cloud.on("DELETE", path, None, status=202, headers=BEGUN)
        cloud.on("GET", OPERATION, refusal("NotFound", "The entity was not found."), status=404)
        with pytest.raises(SnapshotError, match="Azure has forgotten the operation"):
            await (await opened()).delete_snapshot(path)

    async def test_a_refusal_is_reported(self, cloud: Cloud, opened: Open) -> None:
        path = f"{VAULT}/snapshots/s1"
        body = refusal("AuthorizationFailed", "The client has no authorization.")
        cloud.on("DELETE", path, body, status=403)
        with pytest.raises(StorageError, match=r"The client has no authorization. \(AuthorizationFailed\)$"):
            await (await opened()).delete_snapshot(path)


class TestRestoredDisks:
    SNAPSHOT = f"{VAULT}/snapshots/s1"
    NEW = f"{GROUP}/disks/restore-{UUID}"

    @pytest.mark.parametrize(
        ("sku", "zone", "zones"),
        [
            ("Premium_LRS", "westeurope-2", ["2"]),
            ("Premium_LRS", "", None),
            ("Premium_LRS", "0", None),
            ("Premium_ZRS", "westeurope-2", None),
        ],
    )
    async def test_disks_are_made_in_their_zone(
        self, cloud: Cloud, opened: Open, sku: str, zone: str, zones: list[str] | None
    ) -> None:
        cloud.on("GET", self.SNAPSHOT, snapshot(self.SNAPSHOT, tags={"team": "shop"}))
        cloud.on("PUT", self.NEW, accepted(), status=202, headers=BEGUN)
        cloud.on("GET", OPERATION, state("Succeeded"))

        made = await (await opened()).create_volume_from_snapshot(self.SNAPSHOT, sku, zone, None)

        assert made == f"restore-{UUID}"
        (asked,) = cloud.requests("PUT", self.NEW)
        assert asked.json.get("zones") == zones
        assert asked.json["sku"] == {"name": sku}
        assert asked.json["location"] == "westeurope"
        assert asked.json["tags"] == {"team": "shop"}
        assert asked.json["properties"]["creationData"]["sourceResourceId"] == self.SNAPSHOT

    async def test_the_type_of_a_disk_is_its_sku(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        info = await (await opened()).get_volume_info("data", "")

        assert (info.volume_type, info.iops) == ("Premium_LRS", None)


@pytest.mark.spec("STO-037")
async def test_invalid_ids_are_refused_and_tags_adapted(opened: Open) -> None:
    with pytest.raises(SnapshotError, match="snapshot URI could not be parsed"):
        await (await opened()).delete_snapshot("/subscriptions/sub/snapshots/x")
    with pytest.raises(SnapshotError, match="snapshot URI could not be parsed"):
        check_snapshot_id(f"{GROUP}/snapshots/x/../../evil")
    assert check_snapshot_id(f"{GROUP}/snapshots/x".replace("resourceGroups", "resourcegroups"))
    assert azure_tags({"velero.io/backup": "a/b"}) == {"velero.io-backup": "a/b"}


class TestVolumes:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ({"azureDisk": {"diskName": "data"}}, "data"),
            ({"csi": {"driver": "disk.csi.azure.com", "volumeHandle": f"{GROUP}/disks/data"}}, "data"),
            ({"csi": {"driver": "file.csi.azure.com", "volumeHandle": "x"}}, ""),
            ({"hostPath": {}}, ""),
        ],
    )
    async def test_the_id_of_a_volume_is_the_name_of_its_disk(
        self, opened: Open, spec: dict[str, Any], expected: str
    ) -> None:
        assert await (await opened()).get_volume_id({"spec": spec}) == expected

    async def test_a_missing_id_is_an_error(self, opened: Open) -> None:
        with pytest.raises(SnapshotError, match=r"spec.azureDisk.diskName not found"):
            await (await opened()).get_volume_id({"spec": {"azureDisk": {}}})

    async def test_a_persistent_volume_is_changed_to_another_disk(self, opened: Open) -> None:
        snapshotter = await opened()
        uri = f"{GROUP}/disks/new"
        in_tree = await snapshotter.set_volume_id({"spec": {"azureDisk": {"diskName": "a"}}}, "new")
        csi = {"driver": "disk.csi.azure.com", "volumeHandle": "a"}

        assert in_tree["spec"]["azureDisk"] == {"diskName": "new", "diskURI": uri}
        changed = await snapshotter.set_volume_id({"spec": {"csi": csi}}, "new")
        assert changed["spec"]["csi"]["volumeHandle"] == uri
        with pytest.raises(SnapshotError, match=r"spec.azureDisk not found"):
            await snapshotter.set_volume_id({"spec": {}}, "new")


class TestConfiguration:
    @pytest.mark.parametrize(
        ("config", "text"),
        [
            ({"foo": "1"}, r"invalid keys \[foo\]"),
            pytest.param(
                {"incremental": "maybe"},
                'unable to parse value "maybe" for config key "incremental" .expected a boolean value.: ',
                marks=pytest.mark.spec("STO-040"),
            ),
            ({"apiTimeout": "soon"}, 'unable to parse value "soon" for config key "apiTimeout"'),
            ({"apiTimeout": "-1s"}, "must be above 0"),
            ({"subscriptionId": "other"}, "resourceGroup not specified"),
        ],
    )
    async def test_invalid_configurations_are_refused(
        self, opened: Open, config: dict[str, str], text: str
    ) -> None:
        with pytest.raises(SnapshotError, match=text):
            await opened(**config)

    @pytest.mark.parametrize("missing", ["AZURE_SUBSCRIPTION_ID", "AZURE_RESOURCE_GROUP"])
    async def test_missing_settings_are_refused(
        self, environ: dict[str, str], opened: Open, missing: str
    ) -> None:
        del environ[missing]
        with pytest.raises(SnapshotError, match=f"do not have values: {missing}"):
            await opened()

    async def test_missing_credentials_are_an_error(self) -> None:
        environ = {"AZURE_SUBSCRIPTION_ID": "s", "AZURE_RESOURCE_GROUP": "g", "AZURE_IMDS_DISABLED": "true"}
        with pytest.raises(StoreConfigError, match="no Azure credentials found"):
            await AzureDiskSnapshotter(environ=environ).init({})

    async def test_the_token_is_asked_for_once(self, cloud: Cloud, opened: Open) -> None:
        cloud.on("GET", f"{GROUP}/disks/data", DISK)
        snapshotter = await opened()
        await snapshotter.get_volume_info("data", "")
        await snapshotter.get_volume_info("data", "")

        (asked,) = cloud.requests("POST", "/tenant/oauth2/v2.0/token")
        assert parse_qs(asked.body.decode()) == {
            "client_id": ["client"],
            "grant_type": ["client_credentials"],
            "client_secret": ["hunter2"],
            "scope": [f"{cloud.url}/.default"],
        }
