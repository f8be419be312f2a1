"""The protocols that backup and restore actions follow, in-process or behind a plugin.

An action sees one object as a plain dict and says what should become of it. The engines do not know
whether an action is built in, a Python entry point or another process: all of them look like this.
(docs/spec: BKP 8, RST 15, PLG 7.3)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from pinnace.api.backup import Backup
from pinnace.api.restore import Restore

JSONObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSelector:
    """Which items an action wants to see. Empty fields match everything.

    Resource names may be short, singular or `plural.group`; they are resolved through discovery.
    `label_selector` is the text form (`app=web,tier in (a,b)`).
    """

    included_namespaces: Sequence[str] = ()
    excluded_namespaces: Sequence[str] = ()
    included_resources: Sequence[str] = ()
    excluded_resources: Sequence[str] = ()
    label_selector: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceIdentifier:
    """Names one object: `group` is empty for core, `namespace` for cluster-scoped objects."""

    group: str
    resource: str
    namespace: str
    name: str

    @property
    def group_resource(self) -> str:
        """`pods`, or `deployments.apps` for a named group."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@runtime_checkable
class BackupItemAction(Protocol):
    """Changes an item on its way into a backup and names further items that belong with it."""

    @property
    def name(self) -> str:
        """The registered name, `<domain>/<action>`."""
        ...

    async def applies_to(self) -> ResourceSelector:
        """Asked once a backup, before anything is collected; an exception fails the backup."""
        ...

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        """Return the item to store and the additional items to back up before it.

        An exception fails this item, not the backup.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreItemInput:
    """What a restore action is given: the item as it is now, as it was in the backup, and the Restore."""

    item: JSONObject
    item_from_backup: JSONObject
    restore: Restore


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreItemOutput:
    """What a restore action answers. With `skip` the item is not restored, silently."""

    item: JSONObject
    additional_items: Sequence[ResourceIdentifier] = field(default=())
    skip: bool = False


@runtime_checkable
class RestoreItemAction(Protocol):
    """Changes an item on its way into a cluster, may skip it or name items to restore before it."""

    @property
    def name(self) -> str:
        """The registered name, `<domain>/<action>`."""
        ...

    async def applies_to(self) -> ResourceSelector:
        """Asked once a restore; an exception ends the restore with an error."""
        ...

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Return the item to create. An exception fails this item only."""
        ...
