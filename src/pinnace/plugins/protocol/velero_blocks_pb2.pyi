# ruff: noqa
# fmt: off
# mypy: disable-error-code="type-arg, valid-type"
from pinnace.plugins.protocol import velero_pb2 as _velero_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ItemBlockActionAppliesToRequest(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    def __init__(self, plugin: _Optional[str] = ...) -> None: ...

class ItemBlockActionAppliesToResponse(_message.Message):
    __slots__ = ("ResourceSelector",)
    RESOURCESELECTOR_FIELD_NUMBER: _ClassVar[int]
    ResourceSelector: _velero_pb2.ResourceSelector
    def __init__(self, ResourceSelector: _Optional[_Union[_velero_pb2.ResourceSelector, _Mapping]] = ...) -> None: ...

class ItemBlockActionGetRelatedItemsRequest(_message.Message):
    __slots__ = ("plugin", "item", "backup")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    BACKUP_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    item: bytes
    backup: bytes
    def __init__(self, plugin: _Optional[str] = ..., item: _Optional[bytes] = ..., backup: _Optional[bytes] = ...) -> None: ...

class ItemBlockActionGetRelatedItemsResponse(_message.Message):
    __slots__ = ("relatedItems",)
    RELATEDITEMS_FIELD_NUMBER: _ClassVar[int]
    relatedItems: _containers.RepeatedCompositeFieldContainer[_velero_pb2.ResourceIdentifier]
    def __init__(self, relatedItems: _Optional[_Iterable[_Union[_velero_pb2.ResourceIdentifier, _Mapping]]] = ...) -> None: ...
