"""Object stores and volume snapshotters of another process. (docs/spec: PLG 6, 7.1, 7.2)"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta

import orjson

from pinnace.api.objects import JSONObject
from pinnace.plugins.calling import MeteredBody
from pinnace.plugins.errors import PluginCallError
from pinnace.plugins.host.actions import item_of
from pinnace.plugins.host.supervisor import Supervisor
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.protocol import methods
from pinnace.plugins.protocol import velero_pb2 as wire
from pinnace.plugins.protocols import VolumeInfo


class _Initialised:
    """A plugin that is configured once before its first use."""

    kind: PluginKind

    def __init__(self, name: str, supervisor: Supervisor) -> None:
        self.name = name
        self._id = PluginId(self.kind, name)
        self._supervisor = supervisor
        self._initialised = False

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
        request = wire.ObjectExistsRequest(plugin=self.name, bucket=bucket, key=key)
        return (await self._supervisor.question(self._id, methods.OBJECT_EXISTS, request)).exists

    async def get_object(self, bucket: str, key: str) -> AsyncGenerator[bytes, None]:
        """The bytes of an object; stopping early cancels the call."""
        request = wire.GetObjectRequest(plugin=self.name, bucket=bucket, key=key)
        stream = self._supervisor.download(self._id, methods.GET_OBJECT, request)
        async with aclosing(stream):
            async for message in stream:
                yield message.data

    async def list_common_prefixes(self, bucket: str, prefix: str, delimiter: str) -> Sequence[str]:
        """The prefixes up to the next delimiter."""
        request = wire.ListCommonPrefixesRequest(
            plugin=self.name, bucket=bucket, delimiter=delimiter, prefix=prefix
        )
        answer = await self._supervisor.work(self._id, methods.LIST_COMMON_PREFIXES, request)
        return list(answer.prefixes)

    async def list_objects(self, bucket: str, prefix: str) -> Sequence[str]:
        """The keys with the prefix."""
        request = wire.ListObjectsRequest(plugin=self.name, bucket=bucket, prefix=prefix)
        return list((await self._supervisor.work(self._id, methods.LIST_OBJECTS, request)).keys)

    async def delete_object(self, bucket: str, key: str) -> None:
        """Delete an object."""
        request = wire.DeleteObjectRequest(plugin=self.name, bucket=bucket, key=key)
        await self._supervisor.question(self._id, methods.DELETE_OBJECT, request)

    async def create_signed_url(self, bucket: str, key: str, ttl: timedelta) -> str:
        """A URL to read an object with."""
        nanoseconds = ttl // timedelta(microseconds=1) * 1000
        request = wire.CreateSignedURLRequest(plugin=self.name, bucket=bucket, key=key, ttl=nanoseconds)
        return (await self._supervisor.question(self._id, methods.CREATE_SIGNED_URL, request)).url


class RemoteVolumeSnapshotter(_Initialised):
    """A volume snapshotter of another process. Raises PluginError."""

    kind = PluginKind.VOLUME_SNAPSHOTTER

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        """Make a volume."""
        request = wire.CreateVolumeRequest(
            plugin=self.name,
            snapshotID=snapshot_id,
            volumeType=volume_type,
            volumeAZ=volume_az,
            iops=iops or 0,
        )
        answer = await self._supervisor.work(
            self._id,
            methods.CREATE_VOLUME,
            request,
            leaves_behind=f"a volume from snapshot {snapshot_id} that nothing uses",
        )
        return answer.volumeID

    async def get_volume_info(self, volume_id: str, volume_az: str) -> VolumeInfo:
        """Type and speed of a volume."""
        request = wire.GetVolumeInfoRequest(plugin=self.name, volumeID=volume_id, volumeAZ=volume_az)
        answer = await self._supervisor.work(self._id, methods.GET_VOLUME_INFO, request)
        return VolumeInfo(volume_type=answer.volumeType, iops=answer.iops or None)

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        """Take a snapshot."""
        request = wire.CreateSnapshotRequest(
            plugin=self.name, volumeID=volume_id, volumeAZ=volume_az, tags=tags
        )
        answer = await self._supervisor.work(
            self._id,
            methods.CREATE_SNAPSHOT,
            request,
            leaves_behind=f"a snapshot of volume {volume_id} that no backup knows",
        )
        return answer.snapshotID

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot."""
        request = wire.DeleteSnapshotRequest(plugin=self.name, snapshotID=snapshot_id)
        await self._supervisor.work(self._id, methods.DELETE_SNAPSHOT, request)

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        """The id of a volume at the provider."""
        request = wire.GetVolumeIDRequest(plugin=self.name, persistentVolume=orjson.dumps(persistent_volume))
        return (await self._supervisor.work(self._id, methods.GET_VOLUME_ID, request)).volumeID

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        """The persistent volume with another id."""
        request = wire.SetVolumeIDRequest(
            plugin=self.name, persistentVolume=orjson.dumps(persistent_volume), volumeID=volume_id
        )
        answer = await self._supervisor.work(self._id, methods.SET_VOLUME_ID, request)
        return item_of(self.name, answer.persistentVolume)
