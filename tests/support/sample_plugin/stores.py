"""Object store and volume snapshotter of the sample plugin."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta

from pinnace.api.objects import JSONObject
from pinnace.plugins import PluginError, VolumeInfo
from tests.support.sample_plugin.actions import crash_once


def obey(name: str) -> None:
    """End the process once, if the name of an object or a volume says so."""
    if name.startswith("crash-once "):
        crash_once(name.removeprefix("crash-once "))


class MemoryStore:
    """Has every bucket except the one named `missing`."""

    name = "example.io/memory"

    def __init__(self) -> None:
        self._config: Mapping[str, str] = {}
        self._buckets: dict[str, dict[str, bytes]] = {}

    async def init(self, config: Mapping[str, str]) -> None:
        if config.get("fail"):
            raise PluginError("config refused")
        self._config = config

    def _objects_of(self, bucket: str) -> dict[str, bytes]:
        if bucket == "missing":
            raise PluginError("the bucket does not exist")
        return self._buckets.setdefault(bucket, {})

    async def put_object(self, bucket: str, key: str, body: AsyncIterator[bytes]) -> None:
        obey(key)
        if key == "refuse":
            raise PluginError("the object is refused")
        objects = self._objects_of(bucket)
        objects[key] = b"".join([block async for block in body])

    async def object_exists(self, bucket: str, key: str) -> bool:
        return key in self._objects_of(bucket)

    async def get_object(self, bucket: str, key: str) -> AsyncIterator[bytes]:
        obey(key)
        if key not in self._objects_of(bucket):
            raise PluginError("key not found")
        data = self._objects_of(bucket)[key]
        for start in range(0, len(data), 1 << 20):
            yield data[start : start + (1 << 20)]

    async def list_common_prefixes(self, bucket: str, prefix: str, delimiter: str) -> Sequence[str]:
        rests = (key[len(prefix) :] for key in await self.list_objects(bucket, prefix))
        return sorted(
            {prefix + rest.partition(delimiter)[0] + delimiter for rest in rests if delimiter in rest}
        )

    async def list_objects(self, bucket: str, prefix: str) -> Sequence[str]:
        return sorted(key for key in self._objects_of(bucket) if key.startswith(prefix))

    async def delete_object(self, bucket: str, key: str) -> None:
        self._objects_of(bucket).pop(key, None)

    async def create_signed_url(self, bucket: str, key: str, ttl: timedelta) -> str:
        nanoseconds = ttl // timedelta(microseconds=1) * 1000
        return f"memory://{bucket}/{key}?ttl={nanoseconds}&marker={self._config.get('marker', '')}"


class Snapshotter:
    name = "example.io/snapshots"

    def __init__(self) -> None:
        self._config: Mapping[str, str] = {}

    async def init(self, config: Mapping[str, str]) -> None:
        self._config = config

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        speed = "" if iops is None else f" {iops}"
        return f"volume {snapshot_id} {volume_type} {volume_az}{speed}"

    async def get_volume_info(self, volume_id: str, volume_az: str) -> VolumeInfo:
        if volume_id == "fast":
            return VolumeInfo(volume_type="ssd", iops=100)
        return VolumeInfo(volume_type="disk")

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        obey(volume_id)
        pairs = ",".join(f"{key}={value}" for key, value in sorted(tags.items()))
        return f"snapshot {self._config.get('region', '')} {volume_id} {volume_az} {pairs}"

    async def delete_snapshot(self, snapshot_id: str) -> None:
        if snapshot_id == "missing":
            raise PluginError("snapshot not found")

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        found: str = persistent_volume.get("spec", {}).get("sample", {}).get("id", "")
        return found

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        persistent_volume.setdefault("spec", {}).setdefault("sample", {})["id"] = volume_id
        return persistent_volume
