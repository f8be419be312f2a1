"""The NonAdminBackup controller. (docs/spec: NAC 11)"""

from operator import attrgetter
from typing import Final

from pinnace.api.nonadmin.names import Origin
from pinnace.kube.resources import BACKUPS, DATA_UPLOADS, DELETE_BACKUP_REQUESTS, POD_VOLUME_BACKUPS
from pinnace.nonadmin.controllers.parts import Wiring
from pinnace.nonadmin.events import origin_keys, owner_keys, waiting_for
from pinnace.nonadmin.flows.backup import stored_id
from pinnace.nonadmin.loading import BackupFlow
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_LOCATIONS
from pinnace.runtime.controller import Controller

NAME: Final = "nonadmin-backup"


def controller(parts: Wiring) -> Controller:
    """The NonAdminBackup controller."""
    made = parts.controller(NAME, BackupFlow(parts.context), makes=BACKUPS)
    own = origin_keys(Origin.BACKUP)
    parts.watch_requests(made, NON_ADMIN_BACKUPS)
    parts.watch(made, BACKUPS, own)
    parts.watch(made, DELETE_BACKUP_REQUESTS, own)
    owners = owner_keys("Backup", parts.informers[BACKUPS].get, Origin.BACKUP)
    parts.watch(made, POD_VOLUME_BACKUPS, owners)
    parts.watch(made, DATA_UPLOADS, owners)
    parts.watch(made, NON_ADMIN_LOCATIONS, waiting_for(parts.context.lookups.backups_on))
    parts.watch_queue(BACKUPS, parts.context.backups)
    limit = attrgetter("max_unfinished_backups")
    parts.watch_slots(made, NON_ADMIN_BACKUPS, BACKUPS, parts.context.backup_slots, stored_id, limit)
    return made
