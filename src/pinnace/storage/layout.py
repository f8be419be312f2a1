"""Every key in a backup storage location, and nothing else: pure. (docs/spec: STO 1-4, 7, 9)"""

import posixpath
import re
from collections.abc import Iterable

import msgspec

from pinnace.storage.errors import InvalidLocation, StorageError

TOP_LEVEL_DIRECTORIES = frozenset({"backups", "restores", "restic", "metadata", "plugins", "kopia"})
"""The folders that may stand at the root prefix. `kopia` is later Velero's. (docs/spec: STO 7, BEY 3.1)"""

_METADATA = "velero-backup.json"
_PARKED = "pinnace-parked/"
_NAMED_DIRECTORIES = 3
_MAX_NAME_CHARACTERS = 253

_BACKUP_FILES = {
    "BackupContents": ".tar.gz",
    "BackupLog": "-logs.gz",
    "BackupVolumeSnapshots": "-volumesnapshots.json.gz",
    "BackupResourceList": "-resource-list.json.gz",
    "BackupItemIndex": "-pinnace-index.json.gz",
    "BackupResults": "-results.gz",
    "BackupVolumeInfos": "-volumeinfo.json.gz",
    "BackupItemOperations": "-itemoperations.json.gz",
    "CSIBackupVolumeSnapshots": "-csi-volumesnapshots.json.gz",
    "CSIBackupVolumeSnapshotContents": "-csi-volumesnapshotcontents.json.gz",
}
_RESTORE_FILES = {
    "RestoreLog": "restore-{}-logs.gz",
    "RestoreResults": "restore-{}-results.gz",
    "RestoreResourceList": "restore-{}-resource-list.json.gz",
    "RestoreItemOperations": "restore-{}-itemoperations.json.gz",
    "RestoreVolumeInfo": "{}-volumeinfo.json.gz",
    "RestoreOutcomes": "restore-{}-pinnace-outcomes.json.gz",
    "RestoreVolumePatches": "restore-{}-pinnace-volume-patches.json.gz",
}


def clean_bucket(bucket: str) -> str:
    """The bucket without slashes around it. (docs/spec: STO 1)

    Raises:
        InvalidLocation: a slash is left in the middle.
    """
    stripped = bucket.strip("/")
    if "/" in stripped:
        raise InvalidLocation(
            f"backup storage location's bucket name \"{bucket}\" must not contain a '/' "
            "(if using a prefix, put it in the 'Prefix' field instead)"
        )
    return stripped


def clean_prefix(prefix: str) -> str:
    """The root prefix: empty, or cleaned of doubled slashes and dots, with one `/` at its end. (STO 1)"""
    cleaned = posixpath.normpath("/" + prefix).strip("/")
    return f"{cleaned}/" if cleaned else ""


def check_name(name: str) -> str:
    """Return a backup's or restore's name if it can be one segment of a key.

    Names come from users, from the cluster and from the bucket itself; none of them may lead to another
    backup's files. What Kubernetes allows is stricter, but files of foreign names must stay deletable.

    Raises:
        StorageError: the name is empty, too long, `.`, `..`, or has a `/`, `\\` or control character.
    """
    bad_character = any(character in "/\\" or not character.isprintable() for character in name)
    if not name or name in (".", "..") or bad_character or len(name) > _MAX_NAME_CHARACTERS:
        raise StorageError(f"{name[:_MAX_NAME_CHARACTERS]!r} cannot be the name of a backup or restore")
    return name


def invalid_directories_message(directories: Iterable[str]) -> str | None:
    """Say which top-level directories do not belong in a location; None if all do. (docs/spec: STO 7)"""
    invalid = [name for name in directories if name not in TOP_LEVEL_DIRECTORIES]
    if not invalid:
        return None
    if len(invalid) <= _NAMED_DIRECTORIES:
        return f"Backup store contains invalid top-level directories: [{' '.join(invalid)}]"
    named = " ".join([*invalid[:_NAMED_DIRECTORIES], "..."])
    return f"Backup store contains {len(invalid)} invalid top-level directories: [{named}]"


def directory_names(parent: str, prefixes: Iterable[str]) -> list[str]:
    """The names of the directories that a store listed below `parent`, as list_prefixes() gives them."""
    return [prefix[len(parent) : -1] for prefix in prefixes]


class Layout(msgspec.Struct, frozen=True):
    """The keys below one root prefix, which is as clean_prefix() returns it.

    Every method that takes a name raises StorageError if it cannot be part of a key.

    Attributes:
        parked: whether the files of backups are those of backups that wait for operations. They have a
            directory of their own inside of the backup's, where Velero looks for no metadata. (docs/adr/054)
    """

    root: str
    parked: bool = False

    @property
    def backups(self) -> str:
        """Where the directories of backups are."""
        return f"{self.root}backups/"

    @property
    def restores(self) -> str:
        """Where the directories of restores are."""
        return f"{self.root}restores/"

    def backup_directory(self, backup: str) -> str:
        """All keys of a backup begin with this; the slash at the end keeps `b1` from meaning `b10` too."""
        return f"{self.backups}{check_name(backup)}/{_PARKED if self.parked else ''}"

    def restore_directory(self, restore: str) -> str:
        """All keys of a restore begin with this."""
        return f"{self.restores}{check_name(restore)}/"

    def stray_metadata(self, directory: str) -> str:
        """The metadata of a backup whose own directory, or the one around it, is taken for a location."""
        return f"{self.root}{f'{directory}/' if directory else ''}{_METADATA}"

    def backup_metadata(self, backup: str) -> str:
        """The object whose existence means that the backup exists. (docs/spec: STO 6)"""
        return f"{self.backup_directory(backup)}{_METADATA}"

    def writer_claim(self, backup: str) -> str:
        """The claim of the process that writes the backup, which deletes it at the end. Velero ignores it."""
        return f"{self.backups}{check_name(backup)}/{backup}-pinnace-writer.json"

    def backup_manifest(self, backup: str) -> str:
        """The signed list of the backup's files. Velero ignores it."""
        return f"{self.backup_directory(backup)}{backup}-pinnace-manifest.json"

    def plain_list(self, backup: str) -> str:
        """The list of an encrypted backup's data outside of its files. Velero ignores it. (ADR 124)"""
        return f"{self.backup_directory(backup)}{backup}-pinnace-volumes.json"

    def backup_details(self, backup: str) -> str:
        """The whole Backup, encrypted, where its metadata has a part of it. Velero ignores it. (ADR 124)"""
        return f"{self.backup_directory(backup)}{backup}-pinnace-details.json.gz"

    def signs_for_itself(self, backup: str, key: str) -> bool:
        """Whether a file of a backup comes or changes after the manifest was made, or is the manifest."""
        if self.parked and key == self.target("BackupItemOperations", backup):
            return True  # the operations go on; what does not change in the list has a digest (docs/adr/054)
        return self.is_added_key_file(backup, key) or key in (
            self.backup_manifest(backup),
            self.writer_claim(backup),
            self.hold(backup),
        )

    def is_added_key_file(self, backup: str, key: str) -> bool:
        """Whether it is a further key file. What it opens is signed, so it brings in no other content."""
        start = f"{self.backup_directory(backup)}{backup}-pinnace-keys."
        return re.fullmatch(re.escape(start) + r"[0-9]+\.json", key) is not None

    def newest_signed(self, key_id: str) -> str:
        """The newest backups of a signing key; below a directory that a location may have."""
        return f"{self.root}metadata/pinnace-newest-{check_name(key_id)}.json"

    def removal_note(self, digest: str) -> str:
        """The signed note that the backup whose manifest has this digest was removed."""
        return f"{self.root}metadata/pinnace-removed/{check_name(digest)}.json"

    def hold(self, backup: str) -> str:
        """The hold on the backup, or its release. Velero ignores it."""
        return f"{self.backups}{check_name(backup)}/{backup}-pinnace-hold.json"

    def restore_claim(self, restore: str) -> str:
        """The claim of the process that makes the restore, which deletes it at the end. Velero ignores it."""
        return f"{self.restore_directory(restore)}restore-{restore}-pinnace-writer.json"

    def restore_journal(self, restore: str, owner: str, number: int) -> str:
        """A file of the journal of a restore, whose numbers are in order. Velero ignores it. (ADR 131)

        Args:
            owner: the uid of the Restore in its cluster; empty without a server.
        """
        return f"{self.restore_journals(restore, owner)}{number:06}.json.gz"

    def restore_journals(self, restore: str, owner: str) -> str:
        """All keys of the journal of a restore begin with this, and no others do."""
        run = check_name(owner) if owner else "local"
        return f"{self.restore_directory(restore)}restore-{restore}-pinnace-journal-{run}-"

    def pod_volume_backups(self, backup: str) -> str:
        """The list of PodVolumeBackups; it has no download kind."""
        return f"{self.backup_directory(backup)}{backup}-podvolumebackups.json.gz"

    def restore_metadata(self, restore: str) -> str:
        """The Restore object, written only where no server keeps it in a cluster; Velero ignores it."""
        return f"{self.restore_directory(restore)}velero-restore.json"

    @property
    def restic_repositories(self) -> str:
        """Where restic's repositories are, one directory each."""
        return f"{self.root}restic/"

    def repositories(self, uploader: str) -> str:
        """Where the repositories of restic or kopia are, one directory each."""
        return f"{self.root}{uploader}/"

    def repository(self, uploader: str, namespace: str) -> str:
        """Where the repository of a namespace is: of restic or kopia."""
        return f"{self.repositories(uploader)}{check_name(namespace)}/"

    def restic_locks(self, repository: str) -> str:
        """Where restic keeps the locks of a repository."""
        return f"{self.restic_repositories}{check_name(repository)}/locks/"

    def probe(self, token: str) -> str:
        """A file that is written, read and deleted; below a directory that a location may have."""
        return f"{self.root}metadata/pinnace-probe-{check_name(token)}"

    def target(self, kind: str, name: str) -> str:
        """The key of a download target. (docs/spec: STO 9, BEY 3.9)

        Raises:
            StorageError: the kind is unknown, or not kept in this layout.
        """
        if (suffix := _BACKUP_FILES.get(kind)) is not None:
            return f"{self.backup_directory(name)}{name}{suffix}"
        if (file := _RESTORE_FILES.get(kind)) is not None:
            return f"{self.restore_directory(name)}{file.format(name)}"
        raise StorageError(f'unsupported download target kind "{kind}"')
