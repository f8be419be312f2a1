# ruff: noqa
# fmt: off
# mypy: disable-error-code="type-arg, valid-type"
import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from pinnace.plugins.protocol import velero_pb2 as _velero_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OperationProgress(_message.Message):
    __slots__ = ("completed", "err", "nCompleted", "nTotal", "operationUnits", "description", "started", "updated")
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    ERR_FIELD_NUMBER: _ClassVar[int]
    NCOMPLETED_FIELD_NUMBER: _ClassVar[int]
    NTOTAL_FIELD_NUMBER: _ClassVar[int]
    OPERATIONUNITS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    completed: bool
    err: str
    nCompleted: int
    nTotal: int
    operationUnits: str
    description: str
    started: _timestamp_pb2.Timestamp
    updated: _timestamp_pb2.Timestamp
    def __init__(self, completed: _Optional[bool] = ..., err: _Optional[str] = ..., nCompleted: _Optional[int] = ..., nTotal: _Optional[int] = ..., operationUnits: _Optional[str] = ..., description: _Optional[str] = ..., started: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class BackupItemActionAppliesToRequest(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    def __init__(self, plugin: _Optional[str] = ...) -> None: ...

class BackupItemActionAppliesToResponse(_message.Message):
    __slots__ = ("ResourceSelector",)
    RESOURCESELECTOR_FIELD_NUMBER: _ClassVar[int]
    ResourceSelector: _velero_pb2.ResourceSelector
    def __init__(self, ResourceSelector: _Optional[_Union[_velero_pb2.ResourceSelector, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("item", "additionalItems", "operationID", "postOperationItems")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    ADDITIONALITEMS_FIELD_NUMBER: _ClassVar[int]
    OPERATIONID_FIELD_NUMBER: _ClassVar[int]
    POSTOPERATIONITEMS_FIELD_NUMBER: _ClassVar[int]
    item: bytes
    additionalItems: _containers.RepeatedCompositeFieldContainer[_velero_pb2.ResourceIdentifier]
    operationID: str
    postOperationItems: _containers.RepeatedCompositeFieldContainer[_velero_pb2.ResourceIdentifier]
    def __init__(self, item: _Optional[bytes] = ..., additionalItems: _Optional[_Iterable[_Union[_velero_pb2.ResourceIdentifier, _Mapping]]] = ..., operationID: _Optional[str] = ..., postOperationItems: _Optional[_Iterable[_Union[_velero_pb2.ResourceIdentifier, _Mapping]]] = ...) -> None: ...

class BackupItemActionProgressRequest(_message.Message):
    __slots__ = ("plugin", "operationID", "backup")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    OPERATIONID_FIELD_NUMBER: _ClassVar[int]
    BACKUP_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    operationID: str
    backup: bytes
    def __init__(self, plugin: _Optional[str] = ..., operationID: _Optional[str] = ..., backup: _Optional[bytes] = ...) -> None: ...

class BackupItemActionProgressResponse(_message.Message):
    __slots__ = ("progress",)
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    progress: OperationProgress
    def __init__(self, progress: _Optional[_Union[OperationProgress, _Mapping]] = ...) -> None: ...

class BackupItemActionCancelRequest(_message.Message):
    __slots__ = ("plugin", "operationID", "backup")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    OPERATIONID_FIELD_NUMBER: _ClassVar[int]
    BACKUP_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    operationID: str
    backup: bytes
    def __init__(self, plugin: _Optional[str] = ..., operationID: _Optional[str] = ..., backup: _Optional[bytes] = ...) -> None: ...

class RestoreItemActionAppliesToRequest(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    def __init__(self, plugin: _Optional[str] = ...) -> None: ...

class RestoreItemActionAppliesToResponse(_message.Message):
    __slots__ = ("ResourceSelector",)
    RESOURCESELECTOR_FIELD_NUMBER: _ClassVar[int]
    ResourceSelector: _velero_pb2.ResourceSelector
    def __init__(self, ResourceSelector: _Optional[_Union[_velero_pb2.ResourceSelector, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("item", "additionalItems", "skipRestore", "operationID", "waitForAdditionalItems", "additionalItemsReadyTimeout")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    ADDITIONALITEMS_FIELD_NUMBER: _ClassVar[int]
    SKIPRESTORE_FIELD_NUMBER: _ClassVar[int]
    OPERATIONID_FIELD_NUMBER: _ClassVar[int]
    WAITFORADDITIONALITEMS_FIELD_NUMBER: _ClassVar[int]
    ADDITIONALITEMSREADYTIMEOUT_FIELD_NUMBER: _ClassVar[int]
    item: bytes
    additionalItems: _containers.RepeatedCompositeFieldContainer[_velero_pb2.ResourceIdentifier]
    skipRestore: bool
    operationID: str
    waitForAdditionalItems: bool
    additionalItemsReadyTimeout: _duration_pb2.Duration
    def __init__(self, item: _Optional[bytes] = ..., additionalItems: _Optional[_Iterable[_Union[_velero_pb2.ResourceIdentifier, _Mapping]]] = ..., skipRestore: _Optional[bool] = ..., operationID: _Optional[str] = ..., waitForAdditionalItems: _Optional[bool] = ..., additionalItemsReadyTimeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RestoreItemActionProgressRequest(_message.Message):
    __slots__ = ("plugin", "operationID", "restore")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    OPERATIONID_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    operationID: str
    restore: bytes
    def __init__(self, plugin: _Optional[str] = ..., operationID: _Optional[str] = ..., restore: _Optional[bytes] = ...) -> None: ...

class RestoreItemActionProgressResponse(_message.Message):
    __slots__ = ("progress",)
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    progress: OperationProgress
    def __init__(self, progress: _Optional[_Union[OperationProgress, _Mapping]] = ...) -> None: ...

class RestoreItemActionCancelRequest(_message.Message):
    __slots__ = ("plugin", "operationID", "restore")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    OPERATIONID_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    operationID: str
    restore: bytes
    def __init__(self, plugin: _Optional[str] = ..., operationID: _Optional[str] = ..., restore: _Optional[bytes] = ...) -> None: ...

class RestoreItemActionItemsReadyRequest(_message.Message):
    __slots__ = ("plugin", "restore", "additionalItems")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    ADDITIONALITEMS_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    restore: bytes
    additionalItems: _containers.RepeatedCompositeFieldContainer[_velero_pb2.ResourceIdentifier]
    def __init__(self, plugin: _Optional[str] = ..., restore: _Optional[bytes] = ..., additionalItems: _Optional[_Iterable[_Union[_velero_pb2.ResourceIdentifier, _Mapping]]] = ...) -> None: ...

class RestoreItemActionItemsReadyResponse(_message.Message):
    __slots__ = ("ready",)
    READY_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    def __init__(self, ready: _Optional[bool] = ...) -> None: ...
