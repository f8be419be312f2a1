# ruff: noqa
# fmt: off
# mypy: disable-error-code="type-arg, valid-type"
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Stack(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[StackFrame]
    def __init__(self, frames: _Optional[_Iterable[_Union[StackFrame, _Mapping]]] = ...) -> None: ...

class StackFrame(_message.Message):
    __slots__ = ("file", "line", "function")
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    file: str
    line: int
    function: str
    def __init__(self, file: _Optional[str] = ..., line: _Optional[int] = ..., function: _Optional[str] = ...) -> None: ...

class ResourceIdentifier(_message.Message):
    __slots__ = ("group", "resource", "namespace", "name")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    group: str
    resource: str
    namespace: str
    name: str
    def __init__(self, group: _Optional[str] = ..., resource: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ResourceSelector(_message.Message):
    __slots__ = ("includedNamespaces", "excludedNamespaces", "includedResources", "excludedResources", "selector")
    INCLUDEDNAMESPACES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDEDNAMESPACES_FIELD_NUMBER: _ClassVar[int]
    INCLUDEDRESOURCES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDEDRESOURCES_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    includedNamespaces: _containers.RepeatedScalarFieldContainer[str]
    excludedNamespaces: _containers.RepeatedScalarFieldContainer[str]
    includedResources: _containers.RepeatedScalarFieldContainer[str]
    excludedResources: _containers.RepeatedScalarFieldContainer[str]
    selector: str
    def __init__(self, includedNamespaces: _Optional[_Iterable[str]] = ..., excludedNamespaces: _Optional[_Iterable[str]] = ..., includedResources: _Optional[_Iterable[str]] = ..., excludedResources: _Optional[_Iterable[str]] = ..., selector: _Optional[str] = ...) -> None: ...

class PluginIdentifier(_message.Message):
    __slots__ = ("command", "kind", "name")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    command: str
    kind: str
    name: str
    def __init__(self, command: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListPluginsResponse(_message.Message):
    __slots__ = ("plugins",)
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    plugins: _containers.RepeatedCompositeFieldContainer[PluginIdentifier]
    def __init__(self, plugins: _Optional[_Iterable[_Union[PluginIdentifier, _Mapping]]] = ...) -> None: ...

class ObjectStoreInitRequest(_message.Message):
    __slots__ = ("plugin", "config")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    config: _containers.ScalarMap[str, str]
    def __init__(self, plugin: _Optional[str] = ..., config: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PutObjectRequest(_message.Message):
    __slots__ = ("plugin", "bucket", "key", "body")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    bucket: str
    key: str
    body: bytes
    def __init__(self, plugin: _Optional[str] = ..., bucket: _Optional[str] = ..., key: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class ObjectExistsRequest(_message.Message):
    __slots__ = ("plugin", "bucket", "key")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    bucket: str
    key: str
    def __init__(self, plugin: _Optional[str] = ..., bucket: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class ObjectExistsResponse(_message.Message):
    __slots__ = ("exists",)
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    exists: bool
    def __init__(self, exists: _Optional[bool] = ...) -> None: ...

class GetObjectRequest(_message.Message):
    __slots__ = ("plugin", "bucket", "key")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    bucket: str
    key: str
    def __init__(self, plugin: _Optional[str] = ..., bucket: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class Bytes(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class ListCommonPrefixesRequest(_message.Message):
    __slots__ = ("plugin", "bucket", "delimiter", "prefix")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    DELIMITER_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    bucket: str
    delimiter: str
    prefix: str
    def __init__(self, plugin: _Optional[str] = ..., bucket: _Optional[str] = ..., delimiter: _Optional[str] = ..., prefix: _Optional[str] = ...) -> None: ...

class ListCommonPrefixesResponse(_message.Message):
    __slots__ = ("prefixes",)
    PREFIXES_FIELD_NUMBER: _ClassVar[int]
    prefixes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, prefixes: _Optional[_Iterable[str]] = ...) -> None: ...

class ListObjectsRequest(_message.Message):
    __slots__ = ("plugin", "bucket", "prefix")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    bucket: str
    prefix: str
    def __init__(self, plugin: _Optional[str] = ..., bucket: _Optional[str] = ..., prefix: _Optional[str] = ...) -> None: ...

class ListObjectsResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteObjectRequest(_message.Message):
    __slots__ = ("plugin", "bucket", "key")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    bucket: str
    key: str
    def __init__(self, plugin: _Optional[str] = ..., bucket: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class CreateSignedURLRequest(_message.Message):
    __slots__ = ("plugin", "bucket", "key", "ttl")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    bucket: str
    key: str
    ttl: int
    def __init__(self, plugin: _Optional[str] = ..., bucket: _Optional[str] = ..., key: _Optional[str] = ..., ttl: _Optional[int] = ...) -> None: ...

class CreateSignedURLResponse(_message.Message):
    __slots__ = ("url",)
    URL_FIELD_NUMBER: _ClassVar[int]
    url: str
    def __init__(self, url: _Optional[str] = ...) -> None: ...

class VolumeSnapshotterInitRequest(_message.Message):
    __slots__ = ("plugin", "config")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    config: _containers.ScalarMap[str, str]
    def __init__(self, plugin: _Optional[str] = ..., config: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateVolumeRequest(_message.Message):
    __slots__ = ("plugin", "snapshotID", "volumeType", "volumeAZ", "iops")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTID_FIELD_NUMBER: _ClassVar[int]
    VOLUMETYPE_FIELD_NUMBER: _ClassVar[int]
    VOLUMEAZ_FIELD_NUMBER: _ClassVar[int]
    IOPS_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    snapshotID: str
    volumeType: str
    volumeAZ: str
    iops: int
    def __init__(self, plugin: _Optional[str] = ..., snapshotID: _Optional[str] = ..., volumeType: _Optional[str] = ..., volumeAZ: _Optional[str] = ..., iops: _Optional[int] = ...) -> None: ...

class CreateVolumeResponse(_message.Message):
    __slots__ = ("volumeID",)
    VOLUMEID_FIELD_NUMBER: _ClassVar[int]
    volumeID: str
    def __init__(self, volumeID: _Optional[str] = ...) -> None: ...

class GetVolumeInfoRequest(_message.Message):
    __slots__ = ("plugin", "volumeID", "volumeAZ")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    VOLUMEID_FIELD_NUMBER: _ClassVar[int]
    VOLUMEAZ_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    volumeID: str
    volumeAZ: str
    def __init__(self, plugin: _Optional[str] = ..., volumeID: _Optional[str] = ..., volumeAZ: _Optional[str] = ...) -> None: ...

class GetVolumeInfoResponse(_message.Message):
    __slots__ = ("volumeType", "iops")
    VOLUMETYPE_FIELD_NUMBER: _ClassVar[int]
    IOPS_FIELD_NUMBER: _ClassVar[int]
    volumeType: str
    iops: int
    def __init__(self, volumeType: _Optional[str] = ..., iops: _Optional[int] = ...) -> None: ...

class CreateSnapshotRequest(_message.Message):
    __slots__ = ("plugin", "volumeID", "volumeAZ", "tags")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    VOLUMEID_FIELD_NUMBER: _ClassVar[int]
    VOLUMEAZ_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    volumeID: str
    volumeAZ: str
    tags: _containers.ScalarMap[str, str]
    def __init__(self, plugin: _Optional[str] = ..., volumeID: _Optional[str] = ..., volumeAZ: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateSnapshotResponse(_message.Message):
    __slots__ = ("snapshotID",)
    SNAPSHOTID_FIELD_NUMBER: _ClassVar[int]
    snapshotID: str
    def __init__(self, snapshotID: _Optional[str] = ...) -> None: ...

class DeleteSnapshotRequest(_message.Message):
    __slots__ = ("plugin", "snapshotID")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTID_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    snapshotID: str
    def __init__(self, plugin: _Optional[str] = ..., snapshotID: _Optional[str] = ...) -> None: ...

class GetVolumeIDRequest(_message.Message):
    __slots__ = ("plugin", "persistentVolume")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    PERSISTENTVOLUME_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    persistentVolume: bytes
    def __init__(self, plugin: _Optional[str] = ..., persistentVolume: _Optional[bytes] = ...) -> None: ...

class GetVolumeIDResponse(_message.Message):
    __slots__ = ("volumeID",)
    VOLUMEID_FIELD_NUMBER: _ClassVar[int]
    volumeID: str
    def __init__(self, volumeID: _Optional[str] = ...) -> None: ...

class SetVolumeIDRequest(_message.Message):
    __slots__ = ("plugin", "persistentVolume", "volumeID")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    PERSISTENTVOLUME_FIELD_NUMBER: _ClassVar[int]
    VOLUMEID_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    persistentVolume: bytes
    volumeID: str
    def __init__(self, plugin: _Optional[str] = ..., persistentVolume: _Optional[bytes] = ..., volumeID: _Optional[str] = ...) -> None: ...

class SetVolumeIDResponse(_message.Message):
    __slots__ = ("persistentVolume",)
    PERSISTENTVOLUME_FIELD_NUMBER: _ClassVar[int]
    persistentVolume: bytes
    def __init__(self, persistentVolume: _Optional[bytes] = ...) -> None: ...

class BackupItemActionAppliesToRequest(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    def __init__(self, plugin: _Optional[str] = ...) -> None: ...

class BackupItemActionAppliesToResponse(_message.Message):
    __slots__ = ("ResourceSelector",)
    RESOURCESELECTOR_FIELD_NUMBER: _ClassVar[int]
    ResourceSelector: ResourceSelector
    def __init__(self, ResourceSelector: _Optional[_Union[ResourceSelector, _Mapping]] = ...) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("plugin", "item", "backup")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    BACKUP_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    item: bytes
    backup: bytes
    def __init__(self, plugin: _Optional[str] = ..., item: _Optional[bytes] = ..., backup: _Optional[bytes] = ...) -> None: ...

class ExecuteResponse(_message.Message):
    __slots__ = ("item", "additionalItems")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    ADDITIONALITEMS_FIELD_NUMBER: _ClassVar[int]
    item: bytes
    additionalItems: _containers.RepeatedCompositeFieldContainer[ResourceIdentifier]
    def __init__(self, item: _Optional[bytes] = ..., additionalItems: _Optional[_Iterable[_Union[ResourceIdentifier, _Mapping]]] = ...) -> None: ...

class RestoreItemActionAppliesToRequest(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    def __init__(self, plugin: _Optional[str] = ...) -> None: ...

class RestoreItemActionAppliesToResponse(_message.Message):
    __slots__ = ("ResourceSelector",)
    RESOURCESELECTOR_FIELD_NUMBER: _ClassVar[int]
    ResourceSelector: ResourceSelector
    def __init__(self, ResourceSelector: _Optional[_Union[ResourceSelector, _Mapping]] = ...) -> None: ...

class RestoreItemActionExecuteRequest(_message.Message):
    __slots__ = ("plugin", "item", "restore", "itemFromBackup")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    ITEMFROMBACKUP_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    item: bytes
    restore: bytes
    itemFromBackup: bytes
    def __init__(self, plugin: _Optional[str] = ..., item: _Optional[bytes] = ..., restore: _Optional[bytes] = ..., itemFromBackup: _Optional[bytes] = ...) -> None: ...

class RestoreItemActionExecuteResponse(_message.Message):
    __slots__ = ("item", "additionalItems", "skipRestore")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    ADDITIONALITEMS_FIELD_NUMBER: _ClassVar[int]
    SKIPRESTORE_FIELD_NUMBER: _ClassVar[int]
    item: bytes
    additionalItems: _containers.RepeatedCompositeFieldContainer[ResourceIdentifier]
    skipRestore: bool
    def __init__(self, item: _Optional[bytes] = ..., additionalItems: _Optional[_Iterable[_Union[ResourceIdentifier, _Mapping]]] = ..., skipRestore: _Optional[bool] = ...) -> None: ...

class DeleteItemActionAppliesToRequest(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    def __init__(self, plugin: _Optional[str] = ...) -> None: ...

class DeleteItemActionAppliesToResponse(_message.Message):
    __slots__ = ("ResourceSelector",)
    RESOURCESELECTOR_FIELD_NUMBER: _ClassVar[int]
    ResourceSelector: ResourceSelector
    def __init__(self, ResourceSelector: _Optional[_Union[ResourceSelector, _Mapping]] = ...) -> None: ...

class DeleteItemActionExecuteRequest(_message.Message):
    __slots__ = ("plugin", "item", "backup")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    BACKUP_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    item: bytes
    backup: bytes
    def __init__(self, plugin: _Optional[str] = ..., item: _Optional[bytes] = ..., backup: _Optional[bytes] = ...) -> None: ...
