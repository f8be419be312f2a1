"""The NonAdminBackupStorageLocation controller. (docs/spec: NAC 11)"""

from typing import Final

from pinnace.api.nonadmin.names import Origin
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS
from pinnace.nonadmin.controllers.parts import Wiring
from pinnace.nonadmin.events import is_edited, origin_keys
from pinnace.nonadmin.loading import LocationFlow
from pinnace.nonadmin.objects import NON_ADMIN_LOCATION_REQUESTS, NON_ADMIN_LOCATIONS
from pinnace.runtime.controller import Controller

NAME: Final = "nonadmin-location"


def controller(parts: Wiring) -> Controller:
    """The NonAdminBackupStorageLocation controller."""
    made = parts.controller(NAME, LocationFlow(parts.context))
    own = origin_keys(Origin.LOCATION)
    parts.watch_requests(made, NON_ADMIN_LOCATIONS)
    parts.watch(made, BACKUP_STORAGE_LOCATIONS, own)
    parts.watch(made, NON_ADMIN_LOCATION_REQUESTS, own, changed=is_edited)
    return made
