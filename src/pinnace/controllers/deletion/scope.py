"""What of a backup this server may, and can, delete; read only. (docs/spec: CTL 6.2)"""

from pinnace.api.backup import Backup
from pinnace.controllers.pod_volumes import restic_snapshots
from pinnace.controllers.ports import Scope
from pinnace.controllers.snapshots import SnapshotDeletion
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound, UnreadableObject

_NAMED = 10
"""How many snapshots an error names."""


async def foreign_files(store: BackupStore, backup: Backup) -> bool:
    """Whether the location holds another backup of that name.

    A backup that failed because its name was taken must not take the other with it. Uids do not tell, for a
    backup that was found in the location has another one in each cluster; when it began does.

    Raises:
        StorageError: the location cannot be read now.
    """
    try:
        stored = await store.read_backup(backup.metadata.name)
    except (ObjectNotFound, UnreadableObject):
        return False
    began = stored.status.start_timestamp
    return began is not None and began != backup.status.start_timestamp


async def undeletable_snapshots(
    scope: Scope, store: BackupStore, backup: Backup, snapshots: SnapshotDeletion, *, with_restic: bool = True
) -> str:
    """Names snapshots of volumes that would be leaked with their records; empty if there are none.

    Args:
        with_restic: whether nobody forgets those of restic.

    Raises:
        StorageError, KubeError: they cannot be listed now.
    """
    restic = await restic_snapshots(scope, store, backup.metadata.name) if with_restic else ()
    named = [*await snapshots.obstacles(), *sorted(f"restic snapshot {id_}" for _, id_ in restic)]
    if not named:
        return ""
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{more}"
