"""The NonAdminRestore controller. (docs/spec: NAC 11)"""

from operator import attrgetter
from typing import Final

from pinnace.api.nonadmin.names import Origin
from pinnace.kube.resources import DATA_DOWNLOADS, POD_VOLUME_RESTORES, RESTORES
from pinnace.nonadmin.controllers.parts import Wiring
from pinnace.nonadmin.events import origin_keys, owner_keys, waiting_for
from pinnace.nonadmin.flows.restore import restore_id
from pinnace.nonadmin.loading import RestoreFlow
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from pinnace.runtime.controller import Controller

NAME: Final = "nonadmin-restore"


def controller(parts: Wiring) -> Controller:
    """The NonAdminRestore controller."""
    made = parts.controller(NAME, RestoreFlow(parts.context), makes=RESTORES)
    own = origin_keys(Origin.RESTORE)
    parts.watch_requests(made, NON_ADMIN_RESTORES)
    parts.watch(made, RESTORES, own)
    owners = owner_keys("Restore", parts.informers[RESTORES].get, Origin.RESTORE)
    parts.watch(made, POD_VOLUME_RESTORES, owners)
    parts.watch(made, DATA_DOWNLOADS, owners)
    parts.watch(made, NON_ADMIN_BACKUPS, waiting_for(parts.context.lookups.restores_of))
    parts.watch_queue(RESTORES, parts.context.restores)
    limit = attrgetter("max_unfinished_restores")
    parts.watch_slots(made, NON_ADMIN_RESTORES, RESTORES, parts.context.restore_slots, restore_id, limit)
    return made
