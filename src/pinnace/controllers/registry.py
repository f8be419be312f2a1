"""The controllers of a server: one line each, in the order of their start.

A line is all that a new controller needs beside its module: the server makes it, `--disable-controllers`
takes its name, and tests compare the rights that installer, chart and doctor know with its caches and with
the kinds that it deletes. (docs/adr/113; docs/development.md has the steps)
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from pinnace.controllers import (
    backup,
    backup_repository,
    data_movement,
    download_request,
    foreign_runs,
    item_operations,
    repository_maintenance,
    restore,
    schedule,
    schedule_runs,
    server_status,
    storage_location,
    waiting_runs,
)
from pinnace.controllers.deletion import backup_deletion, gc, hold_copies, restore_deletion, retention
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.sync import backup_sync
from pinnace.controllers.telling import telling
from pinnace.controllers.verification import requested, scheduled
from pinnace.csi.snapshots import CONTENTS, SNAPSHOTS
from pinnace.kube.resources import (
    BACKUP_REPOSITORIES,
    BACKUPS,
    CONFIGMAPS,
    DELETE_BACKUP_REQUESTS,
    DOWNLOAD_REQUESTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESTORES,
    SECRETS,
    SERVER_STATUS_REQUESTS,
)
from pinnace.runtime.controller import Controller

_CSI: Final = (SNAPSHOTS, CONTENTS)
_MOVED: Final = tuple(kind.group_resource for kind in (PODS, PERSISTENT_VOLUME_CLAIMS, SECRETS, CONFIGMAPS))


@dataclass(frozen=True, slots=True)
class ServerController:
    """One controller of a server.

    Attributes:
        name: names it in logs, queues and `--disable-controllers`.
        make: makes it of the parts of a server.
        deletes: the kinds of objects that it deletes, as `pods` or `backups.velero.io`. Every server may also
            read, create and patch all kinds, and watch those of its caches.
        part_of: the name of a controller that is never disabled without it.
        for_restores: whether a server with `--restore-only` runs it.
        leads: whether only a server that leads runs it.
    """

    name: str
    make: Callable[[Parts], Controller]
    deletes: tuple[str, ...] = ()
    part_of: str = ""
    for_restores: bool = True
    leads: bool = False


CONTROLLERS: Final = (
    ServerController(backup.NAME, backup.controller, _CSI, for_restores=False),
    ServerController(
        backup_deletion.NAME,
        backup_deletion.controller,
        (*_CSI, *(kind.group_resource for kind in (BACKUPS, RESTORES, DELETE_BACKUP_REQUESTS))),
        for_restores=False,
    ),
    ServerController(backup_sync.NAME, backup_sync.controller, (BACKUPS.group_resource,)),
    ServerController(gc.NAME, gc.controller, for_restores=False),
    ServerController(retention.NAME, retention.controller, part_of=gc.NAME, for_restores=False),
    ServerController(hold_copies.NAME, hold_copies.controller, for_restores=False),
    ServerController(restore_deletion.NAME, restore_deletion.controller),
    ServerController(schedule.NAME, schedule.controller, for_restores=False),
    ServerController(schedule_runs.NAME, schedule_runs.controller, part_of=schedule.NAME, for_restores=False),
    ServerController(restore.NAME, restore.controller),
    ServerController(waiting_runs.NAME, waiting_runs.controller),
    ServerController(
        item_operations.BACKUPS_NAME, item_operations.backups_controller, (*_CSI, SECRETS.group_resource)
    ),
    ServerController(item_operations.RESTORES_NAME, item_operations.restores_controller),
    ServerController(data_movement.UPLOADS_NAME, data_movement.uploads_controller, (*_CSI, *_MOVED)),
    ServerController(
        data_movement.DOWNLOADS_NAME,
        data_movement.downloads_controller,
        (*_MOVED, PERSISTENT_VOLUMES.group_resource),
    ),
    ServerController(storage_location.NAME, storage_location.controller),
    ServerController(download_request.NAME, download_request.controller, (DOWNLOAD_REQUESTS.group_resource,)),
    ServerController(server_status.NAME, server_status.controller, (SERVER_STATUS_REQUESTS.group_resource,)),
    ServerController(scheduled.NAME, scheduled.controller, (CONTENTS,)),
    ServerController(requested.NAME, requested.controller, (CONTENTS,)),
    ServerController(telling.NAME, telling.controller, for_restores=False),
    ServerController(foreign_runs.NAME, foreign_runs.controller, leads=True),
    ServerController(
        backup_repository.NAME, backup_repository.controller, (BACKUP_REPOSITORIES.group_resource,)
    ),
    ServerController(
        repository_maintenance.NAME,
        repository_maintenance.controller,
        (JOBS.group_resource,),
        part_of=backup_repository.NAME,
    ),
)

NAMES: Final = frozenset(each.name for each in CONTROLLERS)
NOT_FOR_RESTORES: Final = frozenset(each.name for each in CONTROLLERS if not each.for_restores)
"""The controllers that a server with `--restore-only` does not run."""


def enabled(disabled: Collection[str], *, leads: bool) -> Iterator[ServerController]:
    """The controllers that a server runs."""
    for each in CONTROLLERS:
        if each.name not in disabled and each.part_of not in disabled and (leads or not each.leads):
            yield each
