"""The one table of kinds that need more than others when they are backed up.

Definitions are added at the end by `crds`, and namespaces are selected by the engine: neither is a step of
one item.
"""

from collections.abc import Mapping
from typing import Final

from pinnace.api import kinds
from pinnace.backup.item.handlers.handler import BackupHandler, BackupVisit
from pinnace.backup.item.handlers.pods import PodBackupHandler
from pinnace.backup.item.handlers.volumes import VolumeBackupHandler

HANDLERS: Final[Mapping[str, type[BackupHandler]]] = {
    kinds.PODS.group_resource: PodBackupHandler,
    kinds.PERSISTENT_VOLUMES.group_resource: VolumeBackupHandler,
}


def handlers_of(visit: BackupVisit) -> tuple[BackupHandler, ...]:
    """The handlers of one item; most have none."""
    handler = HANDLERS.get(visit.resource.group_resource)
    return () if handler is None else (handler(visit),)
