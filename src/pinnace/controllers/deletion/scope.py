"""What of a backup this server may, and can, delete; read only. (docs/spec: CTL 6.2)"""

from collections.abc import Sequence

from pinnace.api.backup import Backup
from pinnace.api.pod_volume import RESTIC
from pinnace.controllers.shared.pod_volumes import pod_volume_snapshots
from pinnace.controllers.shared.scope import Scope
from pinnace.operations.deletion import SnapshotDeletion
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


async def undeletable_data(
    scope: Scope, store: BackupStore, backup: Backup, snapshots: SnapshotDeletion, *, with_restic: bool = True
) -> str:
    """Names volume data that would be leaked with its records; empty if there is none. (docs/adr/021)

    Args:
        with_restic: whether this server cannot forget restic snapshots.

    Raises:
        StorageError, KubeError: it cannot be listed now.
        ArchiveError: the tarball, which alone names some, is damaged.
    """
    named = await snapshots.obstacles()
    for saved in await pod_volume_snapshots(scope, store, backup.metadata.name):
        if saved.uploader != RESTIC or with_restic:
            named.append(str(saved))
    return summary(named)


def summary(named: Sequence[str]) -> str:
    """The first of many, and how many more there are."""
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{more}"
