"""Actions that can tell by a glance which items mean nothing to them: what makes most of a backup quick."""

from typing import Protocol, runtime_checkable

from pinnace.plugins.protocols import BackupItemAction


@runtime_checkable
class SelectiveBackupItemAction(BackupItemAction, Protocol):
    """An action that can tell by a glance that an item means nothing to it; it never renames items.

    Items that no action needs go into the backup as the API server sent them, without being decoded:
    several times as fast. Only actions that run in this process can be this.
    """

    def ignores(self, namespace: str, name: str, raw: bytes) -> bool:
        """Whether `execute` would surely return the item as it is and name no other; in doubt, False.

        Args:
            namespace: empty for cluster-scoped items.
            name: of the item.
            raw: its JSON, perhaps without apiVersion and kind.
        """
        ...


@runtime_checkable
class PreparedBackupItemAction(BackupItemAction, Protocol):
    """An action that reads something of the cluster for all its items at once.

    It is asked when the first items of a resource that it wants have been met, so that a backup without such
    items, or a user without the right to read it, does not need it. Only actions of this process can be this.
    """

    async def prepare(self) -> None:
        """Read it, unless that is done. What cannot be read is reported by `execute`, for each item."""
        ...
