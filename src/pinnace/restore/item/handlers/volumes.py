"""Volumes, their claims and their snapshots. (docs/spec: RST 11-13, BEY 5.9, 6.7)"""

from collections.abc import Sequence
from functools import partial

import orjson

from pinnace.api.nonadmin.restore_limits import VOLUMES, is_old_storage
from pinnace.api.objects import JSONObject
from pinnace.api.restore_outcomes import Outcome
from pinnace.csi.snapshots import SNAPSHOTS
from pinnace.notices.codes import Code
from pinnace.plugins.protocols import ResourceIdentifier
from pinnace.restore.errors import LeftOut
from pinnace.restore.item.applying import Applied, Prepared
from pinnace.restore.item.handlers.handler import RestoreHandler
from pinnace.restore.selection.reading import ItemKey, decode
from pinnace.restore.volumes.preparing import adjust_claim


class VolumeRestoreHandler(RestoreHandler):
    """Makes a volume from its snapshot, or leaves it out so that its claim gets a new one."""

    async def before(self, item: JSONObject) -> JSONObject:
        """Return the volume to create, possibly renamed."""
        run, ref = self.visit.run, self.visit.ref
        volume = await run.volumes.prepare(ref, item, self.visit.results)
        if volume is None:
            is_claimed = bool((item["spec"].get("claimRef") or {}).get("name"))
            raise LeftOut("its claim gets a new volume" if is_claimed else "it has neither data nor a claim")
        limits = run.request.limits
        refused = limits and limits.refusal(VOLUMES, is_namespaced=False)
        if refused and is_old_storage(volume, decode(ref, self.visit.raw)):
            run.volumes.prepared.to_provision.add(ref.name)
            message = f"{ref.id} was not restored, and its claim gets a new and empty volume: {refused}"
            raise LeftOut(refused, Outcome.REFUSED, ref.notice(Code.NOT_PERMITTED_TO_TENANT, message))
        return volume

    async def after(self, sent: Prepared, applied: Applied) -> None:
        """Record the volume, and that a claim may be bound to it."""
        self.visit.run.storage_classes.note_volume(sent.item)
        if applied.created is not None:
            self.visit.run.volume_records.volume_created(self.visit.ref, orjson.loads(applied.created))


class ClaimRestoreHandler(RestoreHandler):
    """Binds a claim to its restored volume, or keeps it from an empty one; starts the restore of its data."""

    async def before(self, item: JSONObject) -> JSONObject:
        """Change a claim whose data is elsewhere or lost."""
        visit = self.visit
        await visit.run.volume_data.prepare_claim(visit.ref, item, partial(visit.exists, item), visit.results)
        return item

    async def needed_first(self, item: JSONObject) -> Sequence[ResourceIdentifier]:
        """The VolumeSnapshot that a new claim is made of: it is the claim's data. (docs/spec: AFT-111)"""
        run, ref = self.visit.run, self.visit.ref
        name = run.volume_data.snapshot_for(ref, item)
        if not name:
            return ()
        key = ItemKey(SNAPSHOTS, ref.target_namespace, name)
        if key not in run.claims and await self.visit.exists(item):
            return ()
        plural, _, group = SNAPSHOTS.partition(".")
        return [ResourceIdentifier(group=group, resource=plural, namespace=ref.original_namespace, name=name)]

    async def prepared(self, item: JSONObject) -> None:
        """Take over what was made of its volume."""
        adjust_claim(item, self.visit.run.volumes.prepared)

    async def after(self, sent: Prepared, applied: Applied) -> None:
        """Record it, start the restore of moved data, and remember the settings of its volume."""
        run, ref, results = self.visit.run, self.visit.ref, self.visit.results
        await run.storage_classes.check_claim(sent, applied, results)
        if applied.in_cluster is not None:
            await run.existing_claims.found(ref, results)
        if applied.created is not None:
            run.existing_claims.created(ref)
            claim = orjson.loads(applied.created)
            run.volume_records.claim_created(ref, claim)
            await run.moved_data.restore(run.restore, ref, claim, results)
            run.volume_patches.claim_created(ref, claim)


class SnapshotRestoreHandler(RestoreHandler):
    """Notes on a VolumeSnapshot what its status says, before that is removed."""

    async def before(self, item: JSONObject) -> JSONObject:
        """Note what is known of its content."""
        self.visit.run.volume_data.prepare_snapshot(item)
        return item
