"""The parts that the controllers of one node agent share, made once and handed to each controller whole."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pinnace.aio.clock import Clock
from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.node.volumes import NodeVolumes
from pinnace.runtime.controller import Controller
from pinnace.runtime.informer import Informer
from pinnace.volumes.uploaders import Uploaders


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """What the controllers of one node agent share.

    Attributes:
        backups: the PodVolumeBackups of the namespace, with the indexes of `pod_volume_backup`.
        restores: the PodVolumeRestores of the namespace, with the index of `pod_volume_restore`.
        uploads, downloads: the DataUploads and DataDownloads of the namespace.
        pods: those of this node.
        backup_workers, restore_workers: how many volumes are saved, and restored, at once.
        timers: what controllers wait by; the event loop's if None.
    """

    scope: NodeScope
    volumes: NodeVolumes
    uploaders: Uploaders
    backups: Informer
    restores: Informer
    uploads: Informer
    downloads: Informer
    pods: Informer
    backup_workers: int = 1
    restore_workers: int = 1
    timers: Clock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeController:
    """A controller, and what must be done before any controller starts.

    Attributes:
        fail_orphans: fails the objects that a former agent of this node left InProgress.
    """

    controller: Controller
    fail_orphans: Callable[[], Awaitable[None]]
