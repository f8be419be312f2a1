"""Plugins: what authors of plugins import, and what finds and runs them.

Everything named in `__all__` here is the stable interface for authors (docs/tasks/write-a-plugin.md). The
modules below are Pinnace's own; `testing` alone is for authors too.
"""

from collections.abc import Sequence

from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.asynchronous import (
    BackupItemActionV2,
    BackupItemOutput,
    ItemBlockAction,
    OperationProgress,
    RestoreItemActionV2,
)
from pinnace.plugins.configuration import check_config_keys
from pinnace.plugins.declaration import Plugins
from pinnace.plugins.errors import PluginError
from pinnace.plugins.logs import get_logger
from pinnace.plugins.protocols import (
    BackupItemAction,
    Configurable,
    DeleteItemAction,
    ObjectStorePlugin,
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemAction,
    RestoreItemInput,
    RestoreItemOutput,
    VolumeInfo,
    VolumeSnapshotter,
)

__all__ = [
    "Backup",
    "BackupItemAction",
    "BackupItemActionV2",
    "BackupItemOutput",
    "Configurable",
    "DeleteItemAction",
    "ItemBlockAction",
    "JSONObject",
    "ObjectStorePlugin",
    "OperationProgress",
    "PluginError",
    "Plugins",
    "ResourceIdentifier",
    "ResourceSelector",
    "Restore",
    "RestoreItemAction",
    "RestoreItemActionV2",
    "RestoreItemInput",
    "RestoreItemOutput",
    "VolumeInfo",
    "VolumeSnapshotter",
    "check_config_keys",
    "get_logger",
    "serve",
]


def serve(plugins: Plugins, arguments: Sequence[str] | None = None) -> int:
    """Run as a program that Velero or Pinnace start as a plugin; returns the exit code.

    For the `__main__` of a package: `raise SystemExit(serve(plugins))`. (docs/spec: PLG 15)
    """
    # gRPC is loaded only by programs of plugins.
    from pinnace.plugins.guest.program import serve as run

    return run(plugins, arguments)
