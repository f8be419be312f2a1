"""Actions that can tell by a glance which items mean nothing to them: what makes most of a backup quick."""

from typing import Protocol, runtime_checkable

from pinnace.plugins.protocols import BackupItemAction


@runtime_checkable
class SelectiveBackupItemAction(BackupItemAction, Protocol):
    """An action that can tell by a glance that an item means nothing to it; it never renames items.

    Items that mean nothing to anybody go into the backup as the API server sent them, without being decoded:
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
