"""Snapshots of EBS volumes. (docs/spec: STO 14.1, PLG 7.2)"""

import os
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from xml.etree.ElementTree import Element

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.objects import JSONObject
from pinnace.api.values.digits import is_digits
from pinnace.api.values.times import parse_time
from pinnace.clouds.aws.finding import find_credentials
from pinnace.storage.errors import StoreUnavailable
from pinnace.storage.settings import parse_bool
from pinnace.store_access.requests import RequestPolicy, child_text
from pinnace.volumes.disks.aws_requests import EC2, EC2Error, items, numbered, tag_specification, tags_of
from pinnace.volumes.disks.volumes import (
    CREDENTIALS_FILE,
    DiskInfo,
    DiskReference,
    check_keys,
    credentials_file,
)
from pinnace.volumes.disks.waiting import wait_until
from pinnace.volumes.native.snapshotters import SnapshotError

EBS = DiskReference(source="awsElasticBlockStore", id_field="volumeID", driver="ebs.csi.aws.com")

_WITH_IOPS = frozenset({"io1", "io2", "gp3"})
"""Types whose speed is chosen. Velero 1.6 knows io1 only, and makes gp3 volumes of the least speed."""

_VOLUME_ID = re.compile(r"vol-.*")
_OLD_ZONE_LABEL = "failure-domain.beta.kubernetes.io/zone"
_OWNER_TAG = "kubernetes.io/cluster/"
_OLD_OWNER_TAG = "KubernetesCluster"
_READY_SECONDS = 300.0
_CLOCK_DIFFERENCE = timedelta(minutes=5)
"""EC2 refuses the signatures of a clock that differs by more from its own."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class EBSSnapshotter:
    """The snapshotter `velero.io/aws`.

    Args:
        environ: where credentials, AWS_CLUSTER_NAME and AWS_ENDPOINT_URL_EC2 are looked for.
        policy: retries and deadlines.
    """

    name = "velero.io/aws"

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
        self._service: EC2 | None = None

    async def init(self, config: Mapping[str, str]) -> None:
        """Check the configuration and find credentials, without a request to the cloud.

        Raises:
            SnapshotError, StoreConfigError: something is wrong or missing in it.
        """
        check_keys(config, ("region", "profile", CREDENTIALS_FILE, "enableSharedConfig"))
        shared_config = parse_bool(config.get("enableSharedConfig", ""))
        if shared_config is None:
            raise SnapshotError("enableSharedConfig must be true or false")
        region = config.get("region", "")
        if not region:
            raise SnapshotError("missing region in aws configuration")
        credentials = find_credentials(
            self._environ,
            profile=config.get("profile", ""),
            credentials_file=credentials_file(config),
            region=region,
            shared_config=shared_config,
        )
        await credentials.get()  # fails here if there are none, not in the middle of a backup
        self._service = EC2(
            region,
            credentials,
            endpoint=self._environ.get("AWS_ENDPOINT_URL_EC2", ""),
            policy=self._policy,
            clock=self._clock,
        )

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        """The `vol-…` part of its handle; empty for volumes of others. Raises SnapshotError."""
        handle = EBS.handle_of(persistent_volume)
        found = _VOLUME_ID.search(handle)
        return found[0] if found else ""

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        """The persistent volume on another EBS volume. Raises SnapshotError."""
        zone = (persistent_volume.get("metadata", {}).get("labels") or {}).get(_OLD_ZONE_LABEL)
        in_tree = f"aws://{zone}/{volume_id}" if zone else volume_id
        return EBS.changed(persistent_volume, {"volumeID": in_tree}, handle=volume_id)

    async def get_volume_info(self, volume_id: str, volume_az: str) -> DiskInfo:
        """Its type, and its IOPS where they are chosen. Raises StorageError."""
        volume = await self._volume(volume_id)
        kind = child_text(volume, "volumeType")
        iops = child_text(volume, "iops") if kind in _WITH_IOPS else ""
        return DiskInfo(volume_type=kind, iops=int(iops) if is_digits(iops) else None)

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        """Start a snapshot of the current state of the volume; EC2 copies the data later.

        If the outcome of an attempt is unknown, the snapshot is searched by its tags before another attempt:
        otherwise EC2 would keep, and charge for, a snapshot that no backup refers to.

        Raises:
            StorageError: EC2 refused, or does not answer.
        """
        wanted = {**tags_of(await self._volume(volume_id)), **tags}
        what = f"cannot take a snapshot of {volume_id}"
        params = {"VolumeId": volume_id, **tag_specification("snapshot", wanted)}
        once, begun = msgspec.structs.replace(self._policy, attempts=1), self._clock.now()
        for tries in range(1, self._policy.attempts + 1):
            try:
                answer = await self._ec2.call("CreateSnapshot", params, what, policy=once)
                return _new_id(answer, "snapshotId", what)
            except StoreUnavailable:
                if made := await self._find_snapshot(volume_id, tags, begun - _CLOCK_DIFFERENCE):
                    return made
                if tries == self._policy.attempts:
                    raise
                await self._policy.wait(tries)
        raise AssertionError("the last try returns or raises")

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot; a missing one is success. Raises StorageError."""
        try:
            what = f"cannot delete snapshot {snapshot_id}"
            await self._ec2.call("DeleteSnapshot", {"SnapshotId": snapshot_id}, what)
        except EC2Error as error:
            if error.code != "InvalidSnapshot.NotFound":
                raise

    async def has_snapshot(self, snapshot_id: str) -> bool:
        """Whether the snapshot exists and has not failed. Raises StorageError."""
        what = f"cannot look at snapshot {snapshot_id}"
        try:
            answer = await self._ec2.call("DescribeSnapshots", {"SnapshotId.1": snapshot_id}, what)
        except EC2Error as error:
            if error.code in ("InvalidSnapshot.NotFound", "InvalidSnapshotID.Malformed"):
                return False
            raise
        return any(child_text(each, "status") != "error" for each in items(answer, "snapshotSet"))

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        """Make a volume in the zone, encrypted and tagged as the snapshot, and wait until it can be used.

        Raises:
            SnapshotError, StorageError: EC2 refused, or the volume failed.
        """
        if not volume_az:
            raise SnapshotError(f"cannot make a volume of {snapshot_id}: the backup does not name its zone")
        what = f"cannot make a volume of {snapshot_id}"
        found = items(
            await self._ec2.call("DescribeSnapshots", {"SnapshotId.1": snapshot_id}, what), "snapshotSet"
        )
        if len(found) != 1:
            raise SnapshotError(f"{what}: expected one snapshot of that id, found {len(found)}")
        params = {
            "SnapshotId": snapshot_id,
            "AvailabilityZone": volume_az,
            "VolumeType": volume_type,
            "Encrypted": child_text(found[0], "encrypted") or "false",
            "ClientToken": str(uuid.uuid4()),  # so that a second try makes no second volume
            **tag_specification("volume", self._owned(tags_of(found[0]))),
        }
        if iops is not None and volume_type in _WITH_IOPS:
            params["Iops"] = str(iops)
        volume_id = _new_id(await self._ec2.call("CreateVolume", params, what), "volumeId", what)
        await self._wait_for(volume_id, what)
        return volume_id

    @property
    def _ec2(self) -> EC2:
        assert self._service is not None, "init comes first"
        return self._service

    async def _volume(self, volume_id: str) -> Element:
        what = f"cannot look at volume {volume_id}"
        found = items(await self._ec2.call("DescribeVolumes", {"VolumeId.1": volume_id}, what), "volumeSet")
        if len(found) != 1:
            raise SnapshotError(f"{what}: expected one volume of that id, found {len(found)}")
        return found[0]

    async def _find_snapshot(self, volume_id: str, tags: Mapping[str, str], since: datetime) -> str:
        """The snapshot of the volume that has these tags and is not older; empty if there is none.

        An older one is of a former backup of the same name.
        """
        filters = {"volume-id": volume_id, **{f"tag:{key}": value for key, value in sorted(tags.items())}}
        params: dict[str, str] = {}
        for number, (name, value) in enumerate(filters.items(), start=1):
            params |= {f"Filter.{number}.Name": name, **numbered(f"Filter.{number}.Value", [value])}
        what = f"cannot look for the snapshot of {volume_id}"
        found = items(await self._ec2.call("DescribeSnapshots", params, what), "snapshotSet")
        new = [each for each in found if _start_time(each) >= since]
        return child_text(new[0], "snapshotId") if new and tags else ""

    async def _wait_for(self, volume_id: str, what: str) -> None:
        """Wait until a new volume can be used.

        EC2 accepts volumes that it then cannot make, for example without a right to the snapshot's key.
        """
        seen = False

        async def available() -> bool:
            nonlocal seen
            try:
                state = child_text(await self._volume(volume_id), "status")
            except EC2Error as error:
                if error.code != "InvalidVolume.NotFound":
                    raise
                if not seen:
                    return False  # a new volume is not known everywhere at once
                raise SnapshotError(
                    f"{what}: EC2 accepted {volume_id} and dropped it again; is there a right to use the "
                    "KMS key of the snapshot?"
                ) from error
            seen = True
            if state == "error":
                raise SnapshotError(f"{what}: volume {volume_id} failed")
            return state != "creating"

        limit = _READY_SECONDS
        await wait_until(available, f"volume {volume_id}", limit_seconds=limit, clock=self._clock)

    def _owned(self, tags: Mapping[str, str]) -> dict[str, str]:
        """The tags of a restored volume: those of ownership name the cluster that AWS_CLUSTER_NAME says."""
        cluster = self._environ.get("AWS_CLUSTER_NAME", "")
        if not cluster:
            return dict(tags)
        kept = {key: value for key, value in tags.items() if not key.startswith(_OWNER_TAG)}
        if _OLD_OWNER_TAG in kept:
            kept[_OLD_OWNER_TAG] = cluster
        return {**kept, f"{_OWNER_TAG}{cluster}": "owned"}


def _start_time(snapshot: Element) -> datetime:
    """When a snapshot was begun; long ago if EC2 does not say it."""
    try:
        return parse_time(child_text(snapshot, "startTime"))
    except ValueError:
        return _LONG_AGO


def _new_id(answer: Element, name: str, what: str) -> str:
    """The id of a new snapshot or volume. Raises StoreUnavailable if the answer has none."""
    if found := child_text(answer, name):
        return found
    raise StoreUnavailable(f"{what}: the answer of EC2 has no {name}")
