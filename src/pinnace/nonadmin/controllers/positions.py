"""The controllers that show tenants the queue positions of their requests. (docs/spec: NAC 7)"""

from pinnace.api.nonadmin.names import Origin
from pinnace.kube.resources import BACKUPS, RESTORES
from pinnace.nonadmin.controllers import backup, restore
from pinnace.nonadmin.controllers.parts import Wiring
from pinnace.nonadmin.events import origin_keys
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from pinnace.nonadmin.positions import PERIOD_SECONDS, Positions, QueuedRequests
from pinnace.runtime.controller import Controller, Resync


def backup_positions(parts: Wiring) -> Controller:
    """The controller that shows the queue positions of NonAdminBackups."""
    queue = QueuedRequests(
        resource=NON_ADMIN_BACKUPS,
        requests=parts.informers[NON_ADMIN_BACKUPS],
        made=parts.informers[BACKUPS],
        waiting=parts.context.backups,
        request_of=origin_keys(Origin.BACKUP),
    )
    return _controller(parts, backup.NAME, queue)


def restore_positions(parts: Wiring) -> Controller:
    """The controller that shows the queue positions of NonAdminRestores."""
    queue = QueuedRequests(
        resource=NON_ADMIN_RESTORES,
        requests=parts.informers[NON_ADMIN_RESTORES],
        made=parts.informers[RESTORES],
        waiting=parts.context.restores,
        request_of=origin_keys(Origin.RESTORE),
    )
    return _controller(parts, restore.NAME, queue)


def _controller(parts: Wiring, name: str, queue: QueuedRequests) -> Controller:
    made = Controller(
        f"{name}-positions", resync=Resync(Positions(parts.client, queue).refresh, PERIOD_SECONDS)
    )
    made.wait_for(*parts.informers.values())
    return made
