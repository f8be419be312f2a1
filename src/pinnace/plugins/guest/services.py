"""Answers each method of the protocol by a call of a Python plugin. (PLG 6, 7)"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any, Generic, TypeVar

import msgspec
import orjson

from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.calling import checked_identifiers, checked_item
from pinnace.plugins.errors import PluginError
from pinnace.plugins.guest.instances import Instances
from pinnace.plugins.kinds import PluginKind
from pinnace.plugins.protocol import methods
from pinnace.plugins.protocol import velero_pb2 as wire
from pinnace.plugins.protocol import velero_v2_pb2 as v2
from pinnace.plugins.protocol.methods import Method, ResponseT
from pinnace.plugins.protocols import (
    BackupItemAction,
    DeleteItemAction,
    ObjectStorePlugin,
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemAction,
    RestoreItemInput,
    RestoreItemOutput,
    VolumeSnapshotter,
)

StructT = TypeVar("StructT", bound=msgspec.Struct)

_NANOSECONDS_OF_A_MICROSECOND = 1000


class Latest(Generic[StructT]):
    """Decodes the Backup or Restore of requests; keeps the last one, as most requests repeat it."""

    def __init__(self, struct: type[StructT]) -> None:
        self._struct = struct
        self._data = b""
        self._read: StructT | None = None

    def of(self, data: bytes) -> StructT:
        """The decoded object. Raises PluginError."""
        if self._read is None or data != self._data:
            self._read, self._data = struct_of(self._struct, data), data
        return self._read


class AnyActionServices:
    """What all kinds of actions are asked."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances
        self._backup = Latest(Backup)
        self._restore = Latest(Restore)

    def applies_to(
        self, kind: PluginKind, method: Method[Any, ResponseT]
    ) -> Callable[[Any], Awaitable[ResponseT]]:
        """The answer about the items that an action applies to."""
        respond: Callable[..., ResponseT] = method.response

        async def answer(request: Any) -> ResponseT:
            selector = await self._instances.selector(kind, request.plugin)
            return respond(ResourceSelector=selector_message(selector))

        return answer


class ActionServices(AnyActionServices):
    """The three kinds of item actions."""

    async def backup_execute(self, request: wire.ExecuteRequest) -> wire.ExecuteResponse:
        kind, name = PluginKind.BACKUP_ITEM_ACTION, request.plugin
        action: BackupItemAction = await self._instances.ready(kind, name)
        item, backup = object_of(request.item, "item"), self._backup.of(request.backup)
        answer: Any = await action.execute(item, backup)
        if answer is None:  # a forgotten `return`; Velero's own framework echoes too
            return wire.ExecuteResponse(item=request.item)
        changed, additional = answer
        return wire.ExecuteResponse(
            item=orjson.dumps(checked_item(name, changed)),
            additionalItems=identifier_messages(name, additional),
        )

    async def restore_execute(
        self, request: wire.RestoreItemActionExecuteRequest
    ) -> wire.RestoreItemActionExecuteResponse:
        kind, name = PluginKind.RESTORE_ITEM_ACTION, request.plugin
        action: RestoreItemAction = await self._instances.ready(kind, name)
        given = restore_input(request, self._restore)
        output: RestoreItemOutput | None = await action.execute(given)
        if output is None:
            return wire.RestoreItemActionExecuteResponse(item=request.item)
        return wire.RestoreItemActionExecuteResponse(
            item=orjson.dumps(checked_item(name, output.item)),
            additionalItems=identifier_messages(name, output.additional_items),
            skipRestore=output.skip,
        )

    async def delete_execute(self, request: wire.DeleteItemActionExecuteRequest) -> wire.Empty:
        kind = PluginKind.DELETE_ITEM_ACTION
        action: DeleteItemAction = await self._instances.ready(kind, request.plugin)
        await action.execute(object_of(request.item, "item"), self._backup.of(request.backup))
        return wire.Empty()


class StoreServices:
    """Object stores."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances

    def _find(self, name: str) -> ObjectStorePlugin:
        store: ObjectStorePlugin = self._instances.find(PluginKind.OBJECT_STORE, name)
        return store

    async def init(self, request: wire.ObjectStoreInitRequest) -> wire.Empty:
        await self._find(request.plugin).init(dict(request.config))
        return wire.Empty()

    async def put_object(self, requests: AsyncIterator[wire.PutObjectRequest]) -> wire.Empty:
        first = await anext(requests, None)
        if first is None:
            raise PluginError("the stream of the object ended before its first message")

        async def body() -> AsyncIterator[bytes]:
            yield first.body
            async for request in requests:
                yield request.body

        async with aclosing(body()) as stream:  # type: ignore[type-var]
            await self._find(first.plugin).put_object(first.bucket, first.key, stream)
        return wire.Empty()

    async def object_exists(self, request: wire.ObjectExistsRequest) -> wire.ObjectExistsResponse:
        exists = await self._find(request.plugin).object_exists(request.bucket, request.key)
        return wire.ObjectExistsResponse(exists=exists)

    async def get_object(self, request: wire.GetObjectRequest) -> AsyncGenerator[wire.Bytes, None]:
        async for block in self._find(request.plugin).get_object(request.bucket, request.key):
            for start in range(0, len(block), methods.BLOCK_BYTES):
                yield wire.Bytes(data=block[start : start + methods.BLOCK_BYTES])

    async def list_common_prefixes(
        self, request: wire.ListCommonPrefixesRequest
    ) -> wire.ListCommonPrefixesResponse:
        store = self._find(request.plugin)
        prefixes = await store.list_common_prefixes(request.bucket, request.prefix, request.delimiter)
        return wire.ListCommonPrefixesResponse(prefixes=prefixes)

    async def list_objects(self, request: wire.ListObjectsRequest) -> wire.ListObjectsResponse:
        keys = await self._find(request.plugin).list_objects(request.bucket, request.prefix)
        return wire.ListObjectsResponse(keys=keys)

    async def delete_object(self, request: wire.DeleteObjectRequest) -> wire.Empty:
        await self._find(request.plugin).delete_object(request.bucket, request.key)
        return wire.Empty()

    async def create_signed_url(self, request: wire.CreateSignedURLRequest) -> wire.CreateSignedURLResponse:
        ttl = timedelta(microseconds=request.ttl // _NANOSECONDS_OF_A_MICROSECOND)
        url = await self._find(request.plugin).create_signed_url(request.bucket, request.key, ttl)
        return wire.CreateSignedURLResponse(url=url)


class SnapshotterServices:
    """Volume snapshotters."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances

    def _find(self, name: str) -> VolumeSnapshotter:
        snapshotter: VolumeSnapshotter = self._instances.find(PluginKind.VOLUME_SNAPSHOTTER, name)
        return snapshotter

    async def init(self, request: wire.VolumeSnapshotterInitRequest) -> wire.Empty:
        await self._find(request.plugin).init(dict(request.config))
        return wire.Empty()

    async def create_volume(self, request: wire.CreateVolumeRequest) -> wire.CreateVolumeResponse:
        volume_id = await self._find(request.plugin).create_volume_from_snapshot(
            request.snapshotID, request.volumeType, request.volumeAZ, request.iops or None
        )
        return wire.CreateVolumeResponse(volumeID=volume_id)

    async def get_volume_info(self, request: wire.GetVolumeInfoRequest) -> wire.GetVolumeInfoResponse:
        info = await self._find(request.plugin).get_volume_info(request.volumeID, request.volumeAZ)
        return wire.GetVolumeInfoResponse(volumeType=info.volume_type, iops=info.iops or 0)

    async def create_snapshot(self, request: wire.CreateSnapshotRequest) -> wire.CreateSnapshotResponse:
        snapshot_id = await self._find(request.plugin).create_snapshot(
            request.volumeID, request.volumeAZ, dict(request.tags)
        )
        return wire.CreateSnapshotResponse(snapshotID=snapshot_id)

    async def delete_snapshot(self, request: wire.DeleteSnapshotRequest) -> wire.Empty:
        await self._find(request.plugin).delete_snapshot(request.snapshotID)
        return wire.Empty()

    async def get_volume_id(self, request: wire.GetVolumeIDRequest) -> wire.GetVolumeIDResponse:
        volume = object_of(request.persistentVolume, "persistent volume")
        return wire.GetVolumeIDResponse(volumeID=await self._find(request.plugin).get_volume_id(volume))

    async def set_volume_id(self, request: wire.SetVolumeIDRequest) -> wire.SetVolumeIDResponse:
        volume = object_of(request.persistentVolume, "persistent volume")
        changed = await self._find(request.plugin).set_volume_id(volume, request.volumeID)
        return wire.SetVolumeIDResponse(persistentVolume=orjson.dumps(changed))


def object_of(data: bytes, what: str) -> JSONObject:
    """The JSON object of a request. Raises PluginError."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise PluginError(f"the {what} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise PluginError(f"the {what} is no JSON object")
    return found


def struct_of(struct: type[StructT], data: bytes) -> StructT:
    """The Backup or Restore of a request; kind and apiVersion may be missing. Raises PluginError."""
    try:
        return decode(struct, data)
    except DecodeError as error:
        raise PluginError(f"the {struct.__name__.lower()} cannot be read: {error}") from error


def restore_input(
    request: wire.RestoreItemActionExecuteRequest | v2.RestoreItemActionExecuteRequest,
    restores: Latest[Restore],
) -> RestoreItemInput:
    """The input of a restore action, from a request. Raises PluginError."""
    return RestoreItemInput(
        item=object_of(request.item, "item"),
        item_from_backup=object_of(request.itemFromBackup, "item from backup"),
        restore=restores.of(request.restore),
    )


def selector_message(selector: ResourceSelector) -> wire.ResourceSelector:
    """The selector of an action, as a message."""
    return wire.ResourceSelector(
        includedNamespaces=selector.included_namespaces,
        excludedNamespaces=selector.excluded_namespaces,
        includedResources=selector.included_resources,
        excludedResources=selector.excluded_resources,
        selector=selector.label_selector,
    )


def identifier_messages(
    plugin: str, identifiers: Sequence[ResourceIdentifier]
) -> list[wire.ResourceIdentifier]:
    """Additional items, as messages."""
    return [
        wire.ResourceIdentifier(
            group=one.group, resource=one.resource, namespace=one.namespace, name=one.name
        )
        for one in checked_identifiers(plugin, identifiers)
    ]
