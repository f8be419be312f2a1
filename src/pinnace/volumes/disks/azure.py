"""Snapshots of managed disks of Azure. (docs/spec: STO 14.3, PLG 7.2)"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.clouds.azure.credentials import (
    AzureCloud,
    AzureOrigin,
    azure_variables,
    cloud_of,
    fetch_azure_token,
    find_azure_origin,
)
from pinnace.clouds.tokens import CachedToken, Token
from pinnace.storage.settings import parse_bool
from pinnace.store_access.requests import RequestPolicy
from pinnace.volumes.disks.azure_operations import ResourceManager
from pinnace.volumes.disks.json_requests import JSONService, NotFoundError
from pinnace.volumes.disks.volumes import (
    CREDENTIALS_FILE,
    DiskInfo,
    DiskReference,
    check_keys,
    credentials_file,
    restored_name,
    snapshot_name,
)
from pinnace.volumes.native.snapshotters import SnapshotError

DISK = DiskReference(source="azureDisk", id_field="diskName", driver="disk.csi.azure.com")

_LONGEST_NAME = 80
_DEFAULT_TIMEOUT = "2m0s"
_SNAPSHOT_ID = re.compile(
    r"/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft.Compute/snapshots/([^/]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    """A resource group of a subscription."""

    subscription: str
    name: str

    def id_of(self, kind: str, name: str) -> str:
        """The id of a disk or snapshot in it."""
        path = "/".join(quote(part, safe="") for part in ("resourceGroups", self.name))
        return (
            f"/subscriptions/{quote(self.subscription, safe='')}/{path}"
            f"/providers/Microsoft.Compute/{kind}/{quote(name, safe='')}"
        )


def check_snapshot_id(snapshot_id: str) -> str:
    """The id, if it is one of a snapshot. Raises SnapshotError. (docs/spec: STO-037)"""
    if not _SNAPSHOT_ID.fullmatch(snapshot_id):
        raise SnapshotError(f"snapshot URI could not be parsed: {snapshot_id!r}")
    return snapshot_id


def azure_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags with keys that Azure takes. (docs/spec: STO-037)"""
    return {key.replace("/", "-"): value for key, value in tags.items()}


class AzureDiskSnapshotter:
    """The snapshotter `velero.io/azure`.

    Args:
        environ: where credentials are looked for, below those of AZURE_CREDENTIALS_FILE.
        policy: retries and deadlines.
    """

    name = "velero.io/azure"

    def __init__(
        self,
        *,
        environ: Mapping[str, str] = os.environ,
        policy: RequestPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._environ = environ
        self._policy = policy or RequestPolicy()
        self._clock = clock
        self._incremental = False
        self._disks = self._snapshots = ResourceGroup(subscription="", name="")
        self._cloud: AzureCloud | None = None
        self._origin: AzureOrigin | None = None
        self._manager: ResourceManager | None = None
        token = CachedToken(self._fetch, clock=clock)

        async def value() -> str:
            return (await token.get()).value

        self._service = JSONService(token=value, policy=self._policy)

    async def init(self, config: Mapping[str, str]) -> None:
        """Check the configuration and find credentials, without a request to the cloud.

        Raises:
            SnapshotError, StoreConfigError: something is wrong or missing in it.
        """
        check_keys(config, ("resourceGroup", "apiTimeout", "subscriptionId", "incremental", CREDENTIALS_FILE))
        variables = azure_variables(credentials_file(config), self._environ)
        self._disks = _group_of(variables)
        self._incremental = _truth(config, "incremental")
        limit_seconds = _timeout(config)
        group, subscription = config.get("resourceGroup", ""), config.get("subscriptionId", "")
        if subscription and not group:
            raise SnapshotError(
                "resourceGroup not specified, but is a requirement when backing up to a "
                "different subscription"
            )
        self._snapshots = ResourceGroup(
            subscription=subscription or self._disks.subscription, name=group or self._disks.name
        )
        self._cloud = cloud_of(variables)
        self._origin = find_azure_origin(variables)
        self._manager = ResourceManager(
            url=self._cloud.resource_manager,
            service=self._service,
            limit_seconds=limit_seconds,
            clock=self._clock,
        )

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        """The name of its disk; empty for volumes of others. Raises SnapshotError."""
        return DISK.handle_of(persistent_volume).rpartition("/")[2]

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        """The persistent volume on another disk of our resource group. Raises SnapshotError."""
        uri = self._disks.id_of("disks", volume_id)
        return DISK.changed(persistent_volume, {"diskName": volume_id, "diskURI": uri}, handle=uri)

    async def get_volume_info(self, volume_id: str, volume_az: str) -> DiskInfo:
        """Its SKU. Raises StorageError."""
        disk = await self._disk(volume_id)
        return DiskInfo(volume_type=str((disk.get("sku") or {}).get("name", "")))

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        """Take a snapshot, full or incremental, and return its id.

        Raises:
            StorageError, SnapshotError: it cannot be taken, or not within `apiTimeout`.
        """
        disk = await self._disk(volume_id)
        snapshot_id = self._snapshots.id_of("snapshots", snapshot_name(volume_id, _LONGEST_NAME))
        body: JSONObject = {
            "location": disk["location"],
            "tags": {**(disk.get("tags") or {}), **azure_tags(tags)},
            "properties": {
                "creationData": {
                    "createOption": "Copy",
                    "sourceResourceId": self._disks.id_of("disks", volume_id),
                },
                "incremental": self._incremental,
            },
        }
        await self._resources.carry_out(
            "PUT", snapshot_id, f"cannot take a snapshot of disk {volume_id}", body
        )
        return snapshot_id

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot; a missing one is success. Raises StorageError, SnapshotError."""
        try:
            what = f"cannot delete snapshot {snapshot_id}"
            await self._resources.carry_out("DELETE", check_snapshot_id(snapshot_id), what)
        except NotFoundError as error:
            # The snapshot or its group is gone. A subscription that is not found is one that we may not see.
            if error.code == "SubscriptionNotFound":
                raise

    async def has_snapshot(self, snapshot_id: str) -> bool:
        """Whether the snapshot exists and has not failed. Raises StorageError, SnapshotError."""
        what = f"cannot look at snapshot {snapshot_id}"
        try:
            found = await self._resources.get(check_snapshot_id(snapshot_id), what)
        except NotFoundError as error:
            if error.code == "SubscriptionNotFound":
                raise
            return False
        return (found.get("properties") or {}).get("provisioningState") != "Failed"

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        """Make a disk with the snapshot's tags in the zone, and wait until it is there.

        Raises:
            StorageError, SnapshotError: it cannot be made, or not within `apiTimeout`.
        """
        what = f"cannot make a disk of snapshot {snapshot_id}"
        snapshot = await self._resources.get(check_snapshot_id(snapshot_id), what)
        name = restored_name()
        body: JSONObject = {
            "location": snapshot["location"],
            "tags": snapshot.get("tags") or {},
            "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": snapshot_id}},
        }
        if volume_type:
            body["sku"] = {"name": volume_type}
        # Where a region has no zones the label is a number; and disks with copies in all zones are in none.
        if "-" in volume_az and not volume_type.endswith("_ZRS"):
            body["zones"] = [volume_az.rpartition("-")[2]]
        await self._resources.carry_out("PUT", self._disks.id_of("disks", name), what, body)
        return name

    async def _fetch(self) -> Token:
        assert self._origin is not None, "init comes first"
        assert self._cloud is not None, "init comes first"
        return await fetch_azure_token(
            self._origin,
            cloud=self._cloud,
            resource=self._cloud.resource_manager,
            policy=self._policy,
            now=self._clock.now(),
        )

    @property
    def _resources(self) -> ResourceManager:
        assert self._manager is not None, "init comes first"
        return self._manager

    async def _disk(self, name: str) -> JSONObject:
        return await self._resources.get(self._disks.id_of("disks", name), f"cannot look at disk {name}")


def _group_of(variables: Mapping[str, str]) -> ResourceGroup:
    """Where the disks are. Raises SnapshotError."""
    names = ("AZURE_SUBSCRIPTION_ID", "AZURE_RESOURCE_GROUP")
    if missing := [name for name in names if not variables.get(name)]:
        raise SnapshotError(
            "unable to get all required environment variables: "
            f"the following keys do not have values: {', '.join(missing)}"
        )
    return ResourceGroup(subscription=variables[names[0]], name=variables[names[1]])


def _truth(config: Mapping[str, str], key: str) -> bool:
    text = config.get(key, "")
    value = parse_bool(text)
    if value is None:
        raise SnapshotError(
            f'unable to parse value "{text}" for config key "{key}" (expected a boolean value): '
            f'strconv.ParseBool: parsing "{text}": invalid syntax'
        )
    return value


def _timeout(config: Mapping[str, str]) -> float:
    text = config.get("apiTimeout") or _DEFAULT_TIMEOUT
    try:
        seconds = Duration.parse(text).total_seconds()
    except ValueError as error:
        raise SnapshotError(f'unable to parse value "{text}" for config key "apiTimeout": {error}') from error
    if seconds <= 0:
        raise SnapshotError(f'unable to parse value "{text}" for config key "apiTimeout": it must be above 0')
    return seconds
