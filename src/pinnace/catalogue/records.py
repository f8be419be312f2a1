"""The records that a backup has of its volumes, for a restore. Pure. (docs/spec: RST 4, BEY 3.6, 3.8)"""

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from pinnace.api.kinds import DATA_UPLOADS, PODS
from pinnace.api.objects import JSONObject, text
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.archive.reader import ArchiveIndex
from pinnace.catalogue.moved import is_of_another_backup, moved_volumes, without_record
from pinnace.catalogue.pod_volumes import SavedPodVolumes, recorded_pod_volumes
from pinnace.catalogue.snapshots import claims_in_snapshots
from pinnace.catalogue.tarball import read_item, stored_objects
from pinnace.catalogue.volumes import Claim, SavedVolume
from pinnace.volumes.pods.pod_claims import claim_name, find_volume


class BackupRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The records in the files beside the tarball.

    Attributes:
        native: of native snapshots, also of those that were not made.
        pod_volumes: the volumes of pods; what a server's cluster has of them counts before the location.
        infos: none for backups of Velero before 1.13.
        operations: of Velero 1.11 and later, not checked.
    """

    native: Sequence[VolumeSnapshot] = ()
    pod_volumes: SavedPodVolumes = msgspec.field(default_factory=SavedPodVolumes)
    infos: Sequence[BackupVolumeInfo] = ()
    operations: Sequence[JSONObject] = ()

    def volumes(self, archive: ArchiveIndex, backup: str) -> list[SavedVolume]:
        """The volumes with claims, as the tarball and these records tell; native snapshots are by volume.

        Of several records of one claim the last counts.
        """
        found = claims_in_snapshots(archive, self.infos, backup)
        moved = moved_volumes(self.infos, self.operations, partial(read_item, archive))
        hinted = {claim: without_record(claim) for claim in _claims_of_uploads(archive, backup)}
        found += {**hinted, **moved}.values()
        found += recorded_pod_volumes(self.infos)
        found += (_with_claim(archive, volume) for volume in self.pod_volumes.volumes)
        return [volume for volume in found if volume.claim[1]]


def _claims_of_uploads(archive: ArchiveIndex, backup: str) -> Iterator[Claim]:
    """The claims of DataUploads in the tarball, which tell nothing but that there is moved data."""
    for upload in stored_objects(archive, DATA_UPLOADS.group_resource):
        name = text(upload, "spec", "sourcePVC")
        if name and not is_of_another_backup(upload, backup):
            yield text(upload, "spec", "sourceNamespace"), name


def _with_claim(archive: ArchiveIndex, volume: SavedVolume) -> SavedVolume:
    """The volume of a pod, with the claim behind it; a pod may use a volume that has none."""
    if volume.claim[1] or not volume.snapshot:
        return volume
    name = _claim_of_pod(archive, volume)
    return msgspec.structs.replace(volume, claim=(volume.namespace, name))


def _claim_of_pod(archive: ArchiveIndex, volume: SavedVolume) -> str:
    found = read_item(archive, PODS.group_resource, volume.namespace, volume.pod)
    try:
        source = find_volume(found, volume.volume) if found is not None else None
        return claim_name(found, source) if found is not None and source is not None else ""
    except (LookupError, TypeError, AttributeError):
        return ""  # no API server would have stored it; reported with its own item
