"""The one table of kinds that need more than others when they are restored, and the small handlers."""

from collections.abc import Mapping
from typing import Final

import orjson

from pinnace.api import kinds
from pinnace.notices.codes import Code
from pinnace.restore.definitions import is_established
from pinnace.restore.item.applying import Applied, Prepared
from pinnace.restore.item.handlers.handler import ItemVisit, RestoreHandler
from pinnace.restore.item.handlers.pods import JobRestoreHandler, PodRestoreHandler
from pinnace.restore.item.handlers.volumes import (
    ClaimRestoreHandler,
    SnapshotRestoreHandler,
    VolumeRestoreHandler,
)
from pinnace.restore.item.services import lost_address


class DefinitionRestoreHandler(RestoreHandler):
    """Waits for a definition, at once if an item that is being restored needs its kind."""

    async def after(self, sent: Prepared, applied: Applied) -> None:
        """Wait for a new one, and for one that exists and is not ready."""
        visit, definitions = self.visit, self.visit.run.definitions
        is_waited_for = applied.in_cluster is not None and not is_established(applied.in_cluster)
        if applied.created is not None or is_waited_for:
            definitions.created(visit.ref.name, applied.resource or sent.resource)
        if applied.created is not None and visit.chain.nesting > 0:
            await visit.run.definitions_settled()


class ServiceRestoreHandler(RestoreHandler):
    """Warns of an address that a manifest asks for; a trial gives no Service the address of the original."""

    async def after(self, sent: Prepared, applied: Applied) -> None:
        """Compare the addresses."""
        run, ref = self.visit.run, self.visit.ref
        if applied.created is None or run.is_trial:
            return
        if lost := lost_address(orjson.loads(sent.raw), orjson.loads(applied.created)):
            warning = ref.notice(Code.ADDRESS_LOST, f"{ref.id}: {lost}")
            self.visit.results.warnings.add(ref.target_namespace, warning)


class QuotaRestoreHandler(RestoreHandler):
    """Notes a quota, which is asked about when everything is restored."""

    async def after(self, sent: Prepared, applied: Applied) -> None:
        """Note one that was written."""
        self.visit.run.quotas.look_at(sent, applied)


HANDLERS: Final[Mapping[str, type[RestoreHandler]]] = {
    kinds.PERSISTENT_VOLUMES.group_resource: VolumeRestoreHandler,
    kinds.PERSISTENT_VOLUME_CLAIMS.group_resource: ClaimRestoreHandler,
    kinds.VOLUME_SNAPSHOTS.group_resource: SnapshotRestoreHandler,
    kinds.PODS.group_resource: PodRestoreHandler,
    kinds.JOBS.group_resource: JobRestoreHandler,
    kinds.SERVICES.group_resource: ServiceRestoreHandler,
    kinds.CUSTOM_RESOURCE_DEFINITIONS.group_resource: DefinitionRestoreHandler,
    kinds.RESOURCE_QUOTAS.group_resource: QuotaRestoreHandler,
    "clusterresourcequotas.quota.openshift.io": QuotaRestoreHandler,
}
"""All other kinds need nothing. A DataUpload is left out as a kind, by `admission`."""


def handlers_of(visit: ItemVisit) -> tuple[RestoreHandler, ...]:
    """The handlers of one item; most have none."""
    handler = HANDLERS.get(visit.ref.group_resource)
    return () if handler is None else (handler(visit),)
