"""DownloadRequest: a request for a URL of a file in a location. (docs/spec: API 9.2)"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import ENUM_KEY, REQUIRED, NullableTime
from pinnace.api.meta import ObjectMeta


class DownloadTargetKind(StrEnum):
    """The files that can be asked for."""

    BACKUP_LOG = "BackupLog"
    BACKUP_CONTENTS = "BackupContents"
    BACKUP_VOLUME_SNAPSHOTS = "BackupVolumeSnapshots"
    BACKUP_RESOURCE_LIST = "BackupResourceList"
    RESTORE_LOG = "RestoreLog"
    RESTORE_RESULTS = "RestoreResults"
    CSI_SNAPSHOTS = "CSIBackupVolumeSnapshots"
    CSI_CONTENTS = "CSIBackupVolumeSnapshotContents"
    BACKUP_ITEM_OPERATIONS = "BackupItemOperations"
    BACKUP_RESULTS = "BackupResults"
    BACKUP_VOLUME_INFOS = "BackupVolumeInfos"
    RESTORE_RESOURCE_LIST = "RestoreResourceList"
    RESTORE_ITEM_OPERATIONS = "RestoreItemOperations"
    RESTORE_VOLUME_INFO = "RestoreVolumeInfo"
    RESTORE_OUTCOMES = "RestoreOutcomes"
    """Not of Velero, whose definition refuses it; a client then shows the resource list. (docs/adr/049)"""
    ITEM_INDEX = "BackupItemIndex"
    """Not of Velero, whose definition refuses it; a client then reads the tarball instead. (docs/adr/057)"""

    @property
    def words(self) -> str:
        """The name of the file in messages: `tarball`, `resource list`."""
        return _WORDS[self]


_WORDS: Final = {
    DownloadTargetKind.BACKUP_LOG: "log",
    DownloadTargetKind.BACKUP_CONTENTS: "tarball",
    DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS: "list of native snapshots",
    DownloadTargetKind.BACKUP_RESOURCE_LIST: "resource list",
    DownloadTargetKind.RESTORE_LOG: "log",
    DownloadTargetKind.RESTORE_RESULTS: "results",
    DownloadTargetKind.CSI_SNAPSHOTS: "list of CSI snapshots",
    DownloadTargetKind.CSI_CONTENTS: "list of CSI snapshot contents",
    DownloadTargetKind.BACKUP_ITEM_OPERATIONS: "list of item operations",
    DownloadTargetKind.BACKUP_RESULTS: "results",
    DownloadTargetKind.BACKUP_VOLUME_INFOS: "list of volumes",
    DownloadTargetKind.RESTORE_RESOURCE_LIST: "resource list",
    DownloadTargetKind.RESTORE_ITEM_OPERATIONS: "list of item operations",
    DownloadTargetKind.RESTORE_VOLUME_INFO: "list of volumes",
    DownloadTargetKind.RESTORE_OUTCOMES: "list of outcomes",
    DownloadTargetKind.ITEM_INDEX: "index",
}

OF_VELERO_1_6: Final = frozenset(
    {
        DownloadTargetKind.BACKUP_LOG,
        DownloadTargetKind.BACKUP_CONTENTS,
        DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS,
        DownloadTargetKind.BACKUP_RESOURCE_LIST,
        DownloadTargetKind.RESTORE_LOG,
        DownloadTargetKind.RESTORE_RESULTS,
    }
)
"""The files that every server provides; the definitions of older servers refuse the others."""

OF_RESTORES: Final = frozenset(
    {
        DownloadTargetKind.RESTORE_LOG,
        DownloadTargetKind.RESTORE_RESULTS,
        DownloadTargetKind.RESTORE_RESOURCE_LIST,
        DownloadTargetKind.RESTORE_ITEM_OPERATIONS,
        DownloadTargetKind.RESTORE_VOLUME_INFO,
        DownloadTargetKind.RESTORE_OUTCOMES,
    }
)
"""The files of a Restore; all others are files of a Backup."""


class DownloadRequestPhase(StrEnum):
    """The phase of a request. Empty counts as New.

    Failed where there is no file; `message` says why. Definitions up to Velero 1.18 lack it. (AFT 1.4)
    """

    NEW = "New"
    PROCESSED = "Processed"
    FAILED = "Failed"


class DownloadTarget(Struct, rename="camel", kw_only=True):
    """One file of a backup or restore.

    Attributes:
        kind: Which file.
        name: Name of the Backup or Restore that it belongs to.
    """

    kind: Annotated[str, REQUIRED, Meta(extra={ENUM_KEY: DownloadTargetKind})] = ""
    name: Annotated[str, REQUIRED] = ""


class DownloadRequestSpec(Struct, rename="camel", kw_only=True):
    """What to download.

    Attributes:
        target: The file.
    """

    target: Annotated[DownloadTarget, REQUIRED] = field(default_factory=DownloadTarget)


class DownloadRequestStatus(Struct, rename="camel", kw_only=True):
    """Where to download it.

    Attributes:
        phase: The phase of the request.
        download_url: Pre-signed URL of the file.
        expiration: When the request, and the URL with it, expires.
        message: Why there is no URL, if the request failed. Definitions up to Velero 1.18 lack it.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: DownloadRequestPhase})] = ""
    download_url: str = field(name="downloadURL", default="")
    expiration: NullableTime = None
    message: str = ""


class DownloadRequest(Struct, rename="camel", kw_only=True):
    """A request for a URL to download a file of a backup or restore."""

    kind: str = "DownloadRequest"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DownloadRequestSpec = field(default_factory=DownloadRequestSpec)
    status: DownloadRequestStatus = field(default_factory=DownloadRequestStatus)


def encode_key_files(contents: Sequence[str]) -> str:
    """The value of the annotation with the key files of an encrypted file, the newest first."""
    return msgspec.json.encode(list(contents)).decode()


def decode_key_files(value: str) -> tuple[str, ...]:
    """The contents of key files in an annotation; none if it is missing or cannot be read."""
    try:
        return tuple(msgspec.json.decode(value or "[]", type=list[str]))
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # a lone surrogate is refused here, too
        return ()
