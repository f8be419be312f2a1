"""Every method of the protocol with its full name and its messages. (docs/spec: PLG 5, 6.1)"""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.empty_pb2 import Empty as GoogleEmpty
from google.protobuf.message import Message

from pinnace.plugins.protocol import support_pb2, velero_blocks_pb2, velero_pb2, velero_v2_pb2

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)

BLOCK_BYTES: Final = 16384
"""The largest body of a message of an object; some hosts and plugins accept no larger one. (PLG 6.3)"""

MAX_MESSAGE_BYTES: Final = 64 << 20
"""The largest message that we accept. Compiled plugins, and Velero itself, accept at most 4 MiB. (PLG 6.3)"""


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, ResponseT]):
    """One method: its full name, what it takes and what it answers."""

    path: str
    request: type[RequestT]
    response: type[ResponseT]

    @property
    def name(self) -> str:
        """The last part of the full name."""
        return self.path.rpartition("/")[2]


def _of(
    service: str, name: str, request: type[RequestT], response: type[ResponseT]
) -> Method[RequestT, ResponseT]:
    return Method(f"/{service}/{name}", request, response)


_p = velero_pb2

LIST_PLUGINS = _of("generated.PluginLister", "ListPlugins", _p.Empty, _p.ListPluginsResponse)

_STORE = "generated.ObjectStore"
STORE_INIT = _of(_STORE, "Init", _p.ObjectStoreInitRequest, _p.Empty)
PUT_OBJECT = _of(_STORE, "PutObject", _p.PutObjectRequest, _p.Empty)
OBJECT_EXISTS = _of(_STORE, "ObjectExists", _p.ObjectExistsRequest, _p.ObjectExistsResponse)
GET_OBJECT = _of(_STORE, "GetObject", _p.GetObjectRequest, _p.Bytes)
LIST_COMMON_PREFIXES = _of(
    _STORE, "ListCommonPrefixes", _p.ListCommonPrefixesRequest, _p.ListCommonPrefixesResponse
)
LIST_OBJECTS = _of(_STORE, "ListObjects", _p.ListObjectsRequest, _p.ListObjectsResponse)
DELETE_OBJECT = _of(_STORE, "DeleteObject", _p.DeleteObjectRequest, _p.Empty)
CREATE_SIGNED_URL = _of(_STORE, "CreateSignedURL", _p.CreateSignedURLRequest, _p.CreateSignedURLResponse)

_SNAPSHOTTER = "generated.VolumeSnapshotter"
SNAPSHOTTER_INIT = _of(_SNAPSHOTTER, "Init", _p.VolumeSnapshotterInitRequest, _p.Empty)
CREATE_VOLUME = _of(_SNAPSHOTTER, "CreateVolumeFromSnapshot", _p.CreateVolumeRequest, _p.CreateVolumeResponse)
GET_VOLUME_INFO = _of(_SNAPSHOTTER, "GetVolumeInfo", _p.GetVolumeInfoRequest, _p.GetVolumeInfoResponse)
CREATE_SNAPSHOT = _of(_SNAPSHOTTER, "CreateSnapshot", _p.CreateSnapshotRequest, _p.CreateSnapshotResponse)
DELETE_SNAPSHOT = _of(_SNAPSHOTTER, "DeleteSnapshot", _p.DeleteSnapshotRequest, _p.Empty)
GET_VOLUME_ID = _of(_SNAPSHOTTER, "GetVolumeID", _p.GetVolumeIDRequest, _p.GetVolumeIDResponse)
SET_VOLUME_ID = _of(_SNAPSHOTTER, "SetVolumeID", _p.SetVolumeIDRequest, _p.SetVolumeIDResponse)

_BACKUP_ACTION = "generated.BackupItemAction"
BACKUP_APPLIES_TO = _of(
    _BACKUP_ACTION, "AppliesTo", _p.BackupItemActionAppliesToRequest, _p.BackupItemActionAppliesToResponse
)
BACKUP_EXECUTE = _of(_BACKUP_ACTION, "Execute", _p.ExecuteRequest, _p.ExecuteResponse)

_RESTORE_ACTION = "generated.RestoreItemAction"
RESTORE_APPLIES_TO = _of(
    _RESTORE_ACTION, "AppliesTo", _p.RestoreItemActionAppliesToRequest, _p.RestoreItemActionAppliesToResponse
)
RESTORE_EXECUTE = _of(
    _RESTORE_ACTION, "Execute", _p.RestoreItemActionExecuteRequest, _p.RestoreItemActionExecuteResponse
)

_DELETE_ACTION = "generated.DeleteItemAction"
DELETE_APPLIES_TO = _of(
    _DELETE_ACTION, "AppliesTo", _p.DeleteItemActionAppliesToRequest, _p.DeleteItemActionAppliesToResponse
)
DELETE_EXECUTE = _of(_DELETE_ACTION, "Execute", _p.DeleteItemActionExecuteRequest, _p.Empty)

_v2 = velero_v2_pb2

_BACKUP_ACTION_V2 = "v2.BackupItemAction"
BACKUP_V2_APPLIES_TO = _of(
    _BACKUP_ACTION_V2,
    "AppliesTo",
    _v2.BackupItemActionAppliesToRequest,
    _v2.BackupItemActionAppliesToResponse,
)
BACKUP_V2_EXECUTE = _of(_BACKUP_ACTION_V2, "Execute", _v2.ExecuteRequest, _v2.ExecuteResponse)
BACKUP_V2_PROGRESS = _of(
    _BACKUP_ACTION_V2, "Progress", _v2.BackupItemActionProgressRequest, _v2.BackupItemActionProgressResponse
)
BACKUP_V2_CANCEL = _of(_BACKUP_ACTION_V2, "Cancel", _v2.BackupItemActionCancelRequest, _p.Empty)

_RESTORE_ACTION_V2 = "v2.RestoreItemAction"
RESTORE_V2_APPLIES_TO = _of(
    _RESTORE_ACTION_V2,
    "AppliesTo",
    _v2.RestoreItemActionAppliesToRequest,
    _v2.RestoreItemActionAppliesToResponse,
)
RESTORE_V2_EXECUTE = _of(
    _RESTORE_ACTION_V2, "Execute", _v2.RestoreItemActionExecuteRequest, _v2.RestoreItemActionExecuteResponse
)
RESTORE_V2_PROGRESS = _of(
    _RESTORE_ACTION_V2,
    "Progress",
    _v2.RestoreItemActionProgressRequest,
    _v2.RestoreItemActionProgressResponse,
)
RESTORE_V2_CANCEL = _of(_RESTORE_ACTION_V2, "Cancel", _v2.RestoreItemActionCancelRequest, _p.Empty)
RESTORE_V2_READY = _of(
    _RESTORE_ACTION_V2,
    "AreAdditionalItemsReady",
    _v2.RestoreItemActionItemsReadyRequest,
    _v2.RestoreItemActionItemsReadyResponse,
)

_b = velero_blocks_pb2

_BLOCK_ACTION = "v1.ItemBlockAction"
BLOCK_APPLIES_TO = _of(
    _BLOCK_ACTION, "AppliesTo", _b.ItemBlockActionAppliesToRequest, _b.ItemBlockActionAppliesToResponse
)
BLOCK_RELATED_ITEMS = _of(
    _BLOCK_ACTION,
    "GetRelatedItems",
    _b.ItemBlockActionGetRelatedItemsRequest,
    _b.ItemBlockActionGetRelatedItemsResponse,
)

SHUTDOWN = _of("plugin.GRPCController", "Shutdown", GoogleEmpty, GoogleEmpty)
STREAM_STDIO = _of("plugin.GRPCStdio", "StreamStdio", GoogleEmpty, support_pb2.StdioData)
HEALTH_CHECK = _of(
    "grpc.health.v1.Health", "Check", support_pb2.HealthCheckRequest, support_pb2.HealthCheckResponse
)
