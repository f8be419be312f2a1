"""PodVolumeBackup and PodVolumeRestore: one volume of one pod, saved or restored by its node's agent.

(docs/spec: API 7)
"""

from typing import Annotated, Final

from msgspec import Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import NULLABLE, REQUIRED, Int64
from pinnace.api.meta import ObjectMeta, ObjectReference
from pinnace.api.objects import JSONObject, text
from pinnace.api.velero.transfers import SavedStatus, TransferStatus

RESTIC: Final = "restic"
KOPIA: Final = "kopia"
"""The uploaders whose snapshots this version makes and restores."""


def uploader_by_fields(uploader_type: str, repo_identifier: str) -> str:
    """The uploader of a PodVolumeBackup or PodVolumeRestore, by its two fields.

    Velero before 1.10 names no uploader, and always the repository, which is restic's. Repositories of kopia
    have no identifier, and Velero after 1.18 takes an object without an uploader for kopia's. (AFT-176)
    """
    return uploader_type or (RESTIC if repo_identifier else KOPIA)


def uploader_of_object(obj: JSONObject) -> str:
    """`uploader_by_fields` of an object as JSON, whatever it holds."""
    return uploader_by_fields(text(obj, "spec", "uploaderType"), text(obj, "spec", "repoIdentifier"))


NO_PARENT: Final = "none"
"""`parentSnapshot` of a PodVolumeBackup or DataUpload whose volume is read as a whole."""
NEWEST_PARENT: Final = frozenset({"", "auto"})
"""Values of it that leave the choice to the uploader. (docs/spec/after-1.18.md, 5.2)"""


class PodVolumeBackupSpec(Struct, rename="camel", kw_only=True):
    """Which volume to save, and where.

    Attributes:
        node: The node that the pod runs on.
        pod: The pod that has the volume.
        volume: Name of the volume in the pod.
        backup_storage_location: The location that holds the repository.
        repo_identifier: The repository, as restic's `--repo` takes it.
        tags: Tags to put on the snapshot.
        uploader_type: The program that saves the volume; if empty, restic where there is a
            `repo_identifier`, as before Velero 1.10, else kopia.
        uploader_settings: Settings of the program.
        cancel: Whether to stop the work.
        parent_snapshot: The snapshot to compare with: none to read every file, empty or auto for the newest
            one of the volume, or its id. A field of later versions of Velero.
    """

    node: Annotated[str, REQUIRED] = ""
    pod: Annotated[ObjectReference, REQUIRED] = field(default_factory=ObjectReference)
    volume: Annotated[str, REQUIRED] = ""
    backup_storage_location: Annotated[str, REQUIRED] = ""
    repo_identifier: Annotated[str, REQUIRED] = ""
    tags: dict[str, str] = {}
    uploader_type: str = ""
    uploader_settings: Annotated[dict[str, str], NULLABLE] = {}
    cancel: bool = False
    parent_snapshot: str = ""

    @property
    def uploader(self) -> str:
        """The program that saves the volume, also where no field names it."""
        return uploader_by_fields(self.uploader_type, self.repo_identifier)


class PodVolumeBackupStatus(SavedStatus, rename="camel", kw_only=True):
    """What the node agent reports about the backup of the volume."""


class PodVolumeBackup(Struct, rename="camel", kw_only=True):
    """A request to save a volume of a pod, and its outcome."""

    kind: str = "PodVolumeBackup"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodVolumeBackupSpec = field(default_factory=PodVolumeBackupSpec)
    status: PodVolumeBackupStatus = field(default_factory=PodVolumeBackupStatus)


class PodVolumeRestoreSpec(Struct, rename="camel", kw_only=True):
    """The snapshot to restore, and the volume to restore it into.

    Attributes:
        pod: The restored pod that has the volume.
        volume: Name of the volume in the pod.
        backup_storage_location: The location that holds the repository.
        repo_identifier: The repository, as restic's `--repo` takes it.
        snapshot_id: The snapshot to restore.
        uploader_type: The program that saved the volume; if empty, restic where there is a
            `repo_identifier`, as before Velero 1.10, else kopia.
        source_namespace: The namespace of the pod that was saved; empty before Velero 1.10.
        uploader_settings: Settings of the program.
        cancel: Whether to stop the work.
        snapshot_size: Number of bytes of the data; 0 where that is not known.
        restore_type: The existingVolumeDataPolicy of the restore: incremental keeps files of the same size
            and time.
    """

    pod: Annotated[ObjectReference, REQUIRED] = field(default_factory=ObjectReference)
    volume: Annotated[str, REQUIRED] = ""
    backup_storage_location: Annotated[str, REQUIRED] = ""
    repo_identifier: Annotated[str, REQUIRED] = ""
    snapshot_id: Annotated[str, REQUIRED] = field(name="snapshotID", default="")
    uploader_type: str = ""
    source_namespace: str = ""
    uploader_settings: Annotated[dict[str, str], NULLABLE] = {}
    cancel: bool = False
    snapshot_size: Int64 = 0
    restore_type: str = ""

    @property
    def uploader(self) -> str:
        """The program that saved the volume, also where no field names it."""
        return uploader_by_fields(self.uploader_type, self.repo_identifier)


class PodVolumeRestoreStatus(TransferStatus, rename="camel", kw_only=True):
    """What the node agent reports about the restore of the volume.

    Attributes:
        node: The node that does the work.
    """

    node: str = ""


class PodVolumeRestore(Struct, rename="camel", kw_only=True):
    """A request to restore a volume of a pod, and its outcome."""

    kind: str = "PodVolumeRestore"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodVolumeRestoreSpec = field(default_factory=PodVolumeRestoreSpec)
    status: PodVolumeRestoreStatus = field(default_factory=PodVolumeRestoreStatus)
