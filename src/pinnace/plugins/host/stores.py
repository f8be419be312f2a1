"""Object stores and volume snapshotters of another process. (docs/spec: PLG 6, 7.1, 7.2)"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta

import orjson

from pinnace.api.objects import JSONObject
from pinnace.plugins.calling import MeteredBody
from pinnace.plugins.errors import PluginCallError
from pinnace.plugins.host.actions import RemotePlugin, item_of
from pinnace.plugins.kinds import PluginKind
from pinnace.plugins.protocol import methods
from pinnace.plugins.protocol import velero_pb2 as wire
from pinnace.plugins.protocols import VolumeInfo


class _Initialised(RemotePlugin):
    """A plugin that is configured once before its first use."""

    _initialised = False

    async def init(self, config: Mapping[str, str]) -> None:
        """Configure it. Raises PluginCallError `already initialized` the second time. (PLG-021)"""
        if self._initialised:
            raise PluginCallError(self.name, "already initialized")
        await self._supervisor.init(self._id, config)
        self._initialised = True


class RemoteObjectStore(_Initialised):
    """An object store of another process. Raises PluginError."""

    kind = PluginKind.OBJECT_STORE

    async def put_object(self, bucket: str, key: str, body: AsyncIterator[bytes]) -> None:
        """Send an object; what the body raises cancels the call and comes through unchanged."""
        source = MeteredBody(body, self._supervisor.deadlines.block)
        async with aclosing(self._batches(bucket, key, source)) as batches:
            await self._supervisor.upload(self._id, methods.PUT_OBJECT, batches, source)

    async def _batches(
        self, bucket: str, key: str, source: MeteredBody
    ) -> AsyncGenerator[Sequence[wire.PutObjectRequest], None]:
        """Messages of at most BLOCK_BYTES; one with nothing in it for an empty object. (PLG 7.1)"""
        sent = False
        async for block in source.blocks():
            parts = [
                block[start : start + methods.BLOCK_BYTES]
                for start in range(0, len(block), methods.BLOCK_BYTES)
            ]
            yield [
                wire.PutObjectRequest(plugin=self.name, bucket=bucket, key=key, body=part) for part in parts
            ]
            sent = sent or bool(parts)
        if not sent:
            yield [wire.PutObjectRequest(plugin=self.name, bucket=bucket, key=key)]

    async def object_exists(self, bucket: str, key: str) -> bool:
        """Whether there is such an object."""
        return (await self._question(methods.OBJECT_EXISTS, bucket=bucket, key=key)).exists

    async def get_object(self, bucket: str, key: str) -> AsyncGenerator[bytes, None]:
        """The bytes of an object; stopping early cancels the call."""
        request = wire.GetObjectRequest(plugin=self.name, bucket=bucket, key=key)
        stream = self._supervisor.download(self._id, methods.GET_OBJECT, request)
        async with aclosing(stream):
            async for message in stream:
                yield message.data

    async def list_common_prefixes(self, bucket: str, prefix: str, delimiter: str) -> Sequence[str]:
        """The prefixes up to the next delimiter."""
        method = methods.LIST_COMMON_PREFIXES
        return list((await self._work(method, bucket=bucket, delimiter=delimiter, prefix=prefix)).prefixes)

    async def list_objects(self, bucket: str, prefix: str) -> Sequence[str]:
        """The keys with the prefix."""
        return list((await self._work(methods.LIST_OBJECTS, bucket=bucket, prefix=prefix)).keys)

    async def delete_object(self, bucket: str, key: str) -> None:
        """Delete an object."""
        await self._question(methods.DELETE_OBJECT, bucket=bucket, key=key)

    async def create_signed_url(self, bucket: str, key: str, ttl: timedelta) -> str:
        """A URL to read an object with."""
        nanoseconds = ttl // timedelta(microseconds=1) * 1000
        method = methods.CREATE_SIGNED_URL
        return (await self._question(method, bucket=bucket, key=key, ttl=nanoseconds)).url


class RemoteVolumeSnapshotter(_Initialised):
    """A volume snapshotter of another process. Raises PluginError."""

    kind = PluginKind.VOLUME_SNAPSHOTTER

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        """Make a volume."""
        answer = await self._work(
            methods.CREATE_VOLUME,
            leaves_behind=f"a volume from snapshot {snapshot_id} that nothing uses",
            snapshotID=snapshot_id,
            volumeType=volume_type,
            volumeAZ=volume_az,
            iops=iops or 0,
        )
        return answer.volumeID

    async def get_volume_info(self, volume_id: str, volume_az: str) -> VolumeInfo:
        """Type and speed of a volume."""
        answer = await self._work(methods.GET_VOLUME_INFO, volumeID=volume_id, volumeAZ=volume_az)
        return VolumeInfo(volume_type=answer.volumeType, iops=answer.iops or None)

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        """Take a snapshot."""
        answer = await self._work(
            methods.CREATE_SNAPSHOT,
            leaves_behind=f"a snapshot of volume {volume_id} that no backup knows",
            volumeID=volume_id,
            volumeAZ=volume_az,
            tags=tags,
        )
        return answer.snapshotID

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot."""
        await self._work(methods.DELETE_SNAPSHOT, snapshotID=snapshot_id)

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        """The id of a volume at the provider."""
        volume = orjson.dumps(persistent_volume)
        return (await self._work(methods.GET_VOLUME_ID, persistentVolume=volume)).volumeID

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        """The persistent volume with another id."""
        volume = orjson.dumps(persistent_volume)
        answer = await self._work(methods.SET_VOLUME_ID, persistentVolume=volume, volumeID=volume_id)
        return item_of(self.name, answer.persistentVolume)
