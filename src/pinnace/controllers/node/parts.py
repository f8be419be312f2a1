"""The parts that the controllers of one node agent share, made once and handed to each controller whole."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.node.volumes import NodeVolumes
from pinnace.runtime.controller import Controller
from pinnace.runtime.informer import Informer
from pinnace.volumes.uploaders import Uploaders


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """The parts that the controllers of one node agent share.

    Attributes:
        backups: the PodVolumeBackups of the namespace, with the indexes of `pod_volume_backup`.
        restores: the PodVolumeRestores of the namespace, with the index of `pod_volume_restore`.
        uploads, downloads: the DataUploads and DataDownloads of the namespace.
        pods: those of this node.
        limits: how many volumes are worked on at once.
    """

    scope: NodeScope
    volumes: NodeVolumes
    uploaders: Uploaders
    backups: Informer
    restores: Informer
    uploads: Informer
    downloads: Informer
    pods: Informer
    limits: "Limits" = field(default_factory=lambda: Limits.of(1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many volumes of the node are worked on at once, whichever objects ask for it.

    Attributes:
        savers, restorers: how many objects of one kind may wait for a slot, or have one.
        saving, restoring: the slots; the same semaphore if one number is for both.
    """

    savers: int
    restorers: int
    saving: asyncio.Semaphore
    restoring: asyncio.Semaphore

    @classmethod
    def of(cls, savers: int, restorers: int) -> "Limits":
        """A number for saving, and one for restoring."""
        saving, restoring = asyncio.Semaphore(savers), asyncio.Semaphore(restorers)
        return cls(savers=savers, restorers=restorers, saving=saving, restoring=restoring)

    @classmethod
    def together(cls, number: int) -> "Limits":
        """A number for saving and restoring together."""
        slots = asyncio.Semaphore(number)
        return cls(savers=number, restorers=number, saving=slots, restoring=slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeController:
    """A controller, and what must be done before any controller starts.

    Attributes:
        fail_orphans: fails the objects that a former agent of this node left InProgress.
    """

    controller: Controller
    fail_orphans: Callable[[], Awaitable[None]]
