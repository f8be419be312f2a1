"""Starts the restore of data that was moved into the location. (docs/spec: BEY 6.7)"""

from collections.abc import Mapping
from typing import Final

import msgspec

from pinnace.api import labels
from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS
from pinnace.api.objects import JSONObject, mapping
from pinnace.api.velero.restore import Restore
from pinnace.catalogue.volumes import Claim
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.objects import MovedVolume, awaited_volume
from pinnace.kube.errors import KubeError
from pinnace.notices.codes import Code
from pinnace.plugins.item_operations import StartedOperations
from pinnace.plugins.protocols import ResourceIdentifier
from pinnace.restore.collaborators import MovedDataRestorer
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.restore.volumes.records import RestoredVolumes

_CLAIMS: Final = PERSISTENT_VOLUME_CLAIMS.group_resource


def wait_for_data(restore: Restore, ref: ItemRef, claim: JSONObject) -> None:
    """Change a claim, in place, so that it is bound to nothing but the volume that gets its data."""
    wanted = awaited_volume(ref.target_namespace, ref.name, restore.metadata.uid)
    claim["spec"]["selector"] = {"matchLabels": wanted}


class MovedData(msgspec.Struct, frozen=True, kw_only=True):
    """Starts the restore of moved data when its claim was created, or exists.

    Attributes:
        volumes: by claim in the backup.
        starter: None without a server and node agents, which do the work; then there are no volumes.
        location: the name of the location that holds the data.
    """

    volumes: Mapping[Claim, MovedVolume]
    starter: MovedDataRestorer | None
    location: str
    started: StartedOperations
    records: RestoredVolumes

    async def restore(self, restore: Restore, ref: ItemRef, claim: JSONObject, results: Results) -> None:
        """Start the restore of the data of a claim that was just created, if it has moved data."""
        moved = self.volumes.get((ref.original_namespace, ref.name))
        if moved is None or self.starter is None:
            return
        if labels.DYNAMIC_PV_RESTORE not in mapping(claim, "spec", "selector", "matchLabels"):
            return
        try:
            operation = await self.starter.start(restore, claim, moved, self.location)
        except KubeError as error:
            ref.fail(
                results,
                Code.VOLUME_DATA_NOT_RESTORED,
                "the data of its volume is not restored, as no DataDownload"
                f" could be created: {error}. The claim stays unbound: delete it and restore again",
                error,
            )
            return
        self._begun(self.starter, ref, moved, operation)

    def has(self, claim: Claim) -> bool:
        """Whether the data of a claim of the backup can be restored."""
        return claim in self.volumes and self.starter is not None

    async def restore_into(self, restore: Restore, ref: ItemRef, claim: JSONObject) -> str:
        """Start the restore of data into the volume of a claim that exists; return why it was not."""
        moved = self.volumes[ref.original_namespace, ref.name]
        if self.starter is None:
            return ""
        try:
            operation = await self.starter.start(restore, claim, moved, self.location)
        except (KubeError, MovementError) as error:
            return str(error)
        self._begun(self.starter, ref, moved, operation)
        return ""

    def _begun(self, starter: MovedDataRestorer, ref: ItemRef, moved: MovedVolume, operation: str) -> None:
        item = ResourceIdentifier(group="", resource=_CLAIMS, namespace=ref.original_namespace, name=ref.name)
        self.started.add(starter.name, operation, item)
        self.records.moved(ref, moved, operation)
