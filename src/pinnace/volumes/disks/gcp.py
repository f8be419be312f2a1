"""Snapshots of disks of Google Compute Engine, zonal and regional. (docs/spec: STO 14.2, PLG 7.2)"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.objects import JSONObject
from pinnace.clouds.gcp.credentials import (
    GoogleOrigin,
    fetch_google_token,
    find_google_origin,
    find_google_project,
)
from pinnace.clouds.tokens import CachedToken, Token
from pinnace.store_access.requests import RequestPolicy
from pinnace.volumes.disks.gcp_operations import Compute
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

PD = DiskReference(source="gcePersistentDisk", id_field="pdName", driver="pd.csi.storage.gke.io")
ENDPOINT = "https://compute.googleapis.com"

_LONGEST_NAME = 63
_ZONES_SEPARATOR = "__"
_ZONE = re.compile(r"([a-z]+-[a-z]+[0-9]+)-[a-z]")
_HANDLE = re.compile(r"projects/[^/]+/((?:zones|regions)/[^/]+)/disks/([^/]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLocation:
    """Where a disk is: a zone, or a region with the zones that have its copies."""

    path: str
    zones: tuple[str, ...]

    @property
    def is_region(self) -> bool:
        """Whether the disk is regional."""
        return self.path.startswith("regions/")


def region_of(zones: str) -> str:
    """The region of a zone, of zones joined by `__`, or of a region itself. Raises SnapshotError."""
    first = zones.partition(_ZONES_SEPARATOR)[0]
    found = _ZONE.fullmatch(first)
    region = found[1] if found else first
    if not re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", region):
        raise SnapshotError(f"failed to parse region from zone {zones!r}")
    return region


def place_of(zones: str) -> DiskLocation:
    """The place that the zone text of a volume means. (docs/spec: STO 14.2) Raises SnapshotError."""
    if not zones:
        raise SnapshotError("the persistent volume does not name the zone of its disk")
    if _ZONES_SEPARATOR in zones:
        return DiskLocation(path=f"regions/{region_of(zones)}", zones=tuple(zones.split(_ZONES_SEPARATOR)))
    return DiskLocation(path=f"zones/{quote(zones, safe='')}", zones=(zones,))


class GCESnapshotter:
    """The snapshotter `velero.io/gcp`.

    Args:
        environ: where credentials are looked for.
        policy: retries and deadlines.
        endpoint: of the compute service.
    """

    name = "velero.io/gcp"

    def __init__(
        self,
        *,
        environ: Mapping[str, str] = os.environ,
        policy: RequestPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
        endpoint: str = ENDPOINT,
    ) -> None:
        self._environ = environ
        self._policy = policy or RequestPolicy()
        self._clock = clock
        self._location = ""
        self._wanted_project = ""
        self._origin: GoogleOrigin | None = None
        self._known_project = ""
        token = CachedToken(self._fetch, clock=clock)

        async def value() -> str:
            return (await token.get()).value

        service = JSONService(token=value, policy=self._policy)
        self._compute = Compute(url=f"{endpoint}/compute/v1", service=service, clock=clock)

    async def init(self, config: Mapping[str, str]) -> None:
        """Check the configuration and find credentials, without a request to the cloud.

        Raises:
            SnapshotError, StoreConfigError: something is wrong or missing in it.
        """
        check_keys(config, ("snapshotLocation", "project", CREDENTIALS_FILE))
        self._location = config.get("snapshotLocation", "")
        self._wanted_project = config.get("project", "")
        self._origin = find_google_origin(credentials_file(config), self._environ)

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        """The name of its disk; empty for volumes of others. Raises SnapshotError."""
        handle = PD.handle_of(persistent_volume)
        if not handle or not PD.is_csi(persistent_volume):
            return handle
        found = _HANDLE.fullmatch(handle)
        if found is None:
            raise SnapshotError(f"spec.csi.volumeHandle {handle!r} does not name a disk")
        return found[2]

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        """The persistent volume on another disk, in the same place of our project. Raises StorageError."""
        handle = ""
        if PD.is_csi(persistent_volume):
            found = _HANDLE.fullmatch(PD.handle_of(persistent_volume))
            if found is None:
                raise SnapshotError("spec.csi.volumeHandle does not name a disk")
            handle = f"projects/{await self._project()}/{found[1]}/disks/{volume_id}"
        return PD.changed(persistent_volume, {"pdName": volume_id}, handle=handle)

    async def get_volume_info(self, volume_id: str, volume_az: str) -> DiskInfo:
        """The URL of its type, as Velero keeps it. Raises StorageError, SnapshotError."""
        return DiskInfo(volume_type=str((await self._disk(volume_id, volume_az)).get("type", "")))

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        """Take a snapshot and wait until it no longer depends on what is written to the disk.

        Raises:
            StorageError, SnapshotError: it cannot be taken, or failed.
        """
        disk = await self._disk(volume_id, volume_az)
        name = snapshot_name(volume_id, _LONGEST_NAME)
        what = f"cannot take a snapshot of disk {volume_id}"
        body: JSONObject = {
            "name": name,
            "sourceDisk": f"projects/{await self._project()}/{place_of(volume_az).path}/disks/{volume_id}",
            "description": _description(str(disk.get("description", "")), tags),
        }
        if self._location:
            body["storageLocations"] = [self._location]
        place = await self._snapshots()
        await self._compute.insert(
            place, "snapshots", body, what, made=lambda status: status in ("UPLOADING", "READY")
        )
        return name

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot; a missing one is success. Raises StorageError, SnapshotError."""
        what = f"cannot delete snapshot {snapshot_id}"
        try:
            await self._compute.delete(await self._snapshots(), "snapshots", snapshot_id, what)
        except NotFoundError:
            return

    async def has_snapshot(self, snapshot_id: str) -> bool:
        """Whether the snapshot exists and has not failed. Raises StorageError, SnapshotError."""
        what = f"cannot look at snapshot {snapshot_id}"
        try:
            found = await self._compute.get(
                f"{await self._snapshots()}/snapshots/{quote(snapshot_id, safe='')}", what
            )
        except NotFoundError:
            return False
        return found.get("status") not in ("FAILED", "DELETING")

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        """Make a disk where the old one was, and wait until it is there.

        Raises:
            StorageError, SnapshotError: it cannot be made.
        """
        what = f"cannot make a disk of snapshot {snapshot_id}"
        snapshot = await self._compute.get(
            f"{await self._snapshots()}/snapshots/{quote(snapshot_id, safe='')}", what
        )
        place, project = place_of(volume_az), await self._project()
        name = restored_name()
        where = f"projects/{project}/{place.path}"
        body: JSONObject = {
            "name": name,
            "sourceSnapshot": snapshot["selfLink"],
            "description": snapshot.get("description", ""),
        }
        if volume_type:
            body["type"] = f"{where}/diskTypes/{volume_type.rpartition('/')[2]}"
        if place.is_region:
            body["replicaZones"] = [f"projects/{project}/zones/{zone}" for zone in place.zones]
        await self._compute.insert(where, "disks", body, what, made=lambda status: status == "READY")
        return name

    async def _fetch(self) -> Token:
        assert self._origin is not None, "init comes first"
        return await fetch_google_token(
            self._origin, environ=self._environ, policy=self._policy, now=self._clock.now()
        )

    async def _project(self) -> str:
        """The project of the disks: that of the credentials."""
        assert self._origin is not None, "init comes first"
        if not self._known_project:
            self._known_project = await find_google_project(
                self._origin, environ=self._environ, policy=self._policy
            )
        return self._known_project

    async def _disk(self, name: str, zones: str) -> JSONObject:
        path = f"projects/{await self._project()}/{place_of(zones).path}/disks/{quote(name, safe='')}"
        return await self._compute.get(path, f"cannot look at disk {name}")

    async def _snapshots(self) -> str:
        """Where the snapshots are."""
        return f"projects/{self._wanted_project or await self._project()}/global"


def _description(old: str, tags: Mapping[str, str]) -> str:
    """The tags as JSON, which is where Velero keeps them, beside what the disk's description has."""
    try:
        found = json.loads(old) if old else {}
    except (ValueError, RecursionError):
        found = {}
    return json.dumps({**(found if isinstance(found, dict) else {}), **tags})
