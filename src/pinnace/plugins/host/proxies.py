"""The classes that stand for plugins of other processes, by their kind."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pinnace.plugins.host.actions import (
    RemoteBackupItemAction,
    RemoteBackupItemActionV2,
    RemoteDeleteItemAction,
    RemoteItemBlockAction,
    RemoteRestoreItemAction,
    RemoteRestoreItemActionV2,
)
from pinnace.plugins.host.stores import RemoteObjectStore, RemoteVolumeSnapshotter
from pinnace.plugins.host.supervisor import Supervisor
from pinnace.plugins.kinds import PluginKind

PROXIES: Final[Mapping[PluginKind, Callable[[str, Supervisor], Any]]] = {
    PluginKind.BACKUP_ITEM_ACTION: RemoteBackupItemAction,
    PluginKind.VOLUME_SNAPSHOTTER: RemoteVolumeSnapshotter,
    PluginKind.OBJECT_STORE: RemoteObjectStore,
    PluginKind.RESTORE_ITEM_ACTION: RemoteRestoreItemAction,
    PluginKind.DELETE_ITEM_ACTION: RemoteDeleteItemAction,
    PluginKind.BACKUP_ITEM_ACTION_V2: RemoteBackupItemActionV2,
    PluginKind.RESTORE_ITEM_ACTION_V2: RemoteRestoreItemActionV2,
    PluginKind.ITEM_BLOCK_ACTION: RemoteItemBlockAction,
}
