"""The protocols that plugins of the first five kinds follow, in this process or in another.

An action gets one object as a plain dict and returns what becomes of it; a store or a snapshotter works
for one provider. Callers need not know whether it is built in, a Python plugin or another process: all
of them look like this. (docs/spec: BKP 8, RST 15, PLG 7)
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol, runtime_checkable

from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore


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
    """The input of a restore action: the item as it is now, as it was in the backup, and the Restore."""

    item: JSONObject
    item_from_backup: JSONObject
    restore: Restore


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreItemOutput:
    """The answer of a restore action. With `skip` the item is silently not restored.

    Attributes:
        additional_items: restored before the item.
        operation_id, wait_for_additional_items, additional_items_ready_timeout: only of version 2
            (`pinnace.plugins.asynchronous`).
    """

    item: JSONObject
    additional_items: Sequence[ResourceIdentifier] = field(default=())
    skip: bool = False
    operation_id: str = ""
    wait_for_additional_items: bool = False
    additional_items_ready_timeout: timedelta | None = None


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


@runtime_checkable
class DeleteItemAction(Protocol):
    """Cleans up after an item when its backup is deleted."""

    @property
    def name(self) -> str:
        """The registered name, `<domain>/<action>`."""
        ...

    async def applies_to(self) -> ResourceSelector:
        """Asked once a deletion; an exception stops it. (docs/spec: PLG 7.3, CTL 6.3)"""
        ...

    async def execute(self, item: JSONObject, backup: Backup) -> None:
        """Act on one item of the backup. An exception is logged and the deletion goes on."""
        ...


@runtime_checkable
class ObjectStorePlugin(Protocol):
    """Reads and writes the objects of a backup location. (docs/spec: PLG 7.1)

    A location's `spec.provider` is the name. Calls may come concurrently.
    """

    @property
    def name(self) -> str:
        """The registered name, `<domain>/<provider>`."""
        ...

    async def init(self, config: Mapping[str, str]) -> None:
        """Called first, with the location's configuration.

        That is its `config` and always `bucket` and `prefix`; `caCert` and `credentialsFile` only if set.
        `check_config_keys` refuses others.
        """
        ...

    async def put_object(self, bucket: str, key: str, body: AsyncIterator[bytes]) -> None:
        """Store an object; it must not appear before `body` ended well.

        When iterating `body` raises, nothing may be stored.
        """
        ...

    async def object_exists(self, bucket: str, key: str) -> bool:
        """Whether there is such an object. A missing one is no error."""
        ...

    def get_object(self, bucket: str, key: str) -> AsyncIterator[bytes]:
        """The bytes of an object, in blocks of any size; an async generator. A missing object raises."""
        ...

    async def list_common_prefixes(self, bucket: str, prefix: str, delimiter: str) -> Sequence[str]:
        """The beginnings of keys from `prefix` to the next `delimiter`, whole, each once."""
        ...

    async def list_objects(self, bucket: str, prefix: str) -> Sequence[str]:
        """All keys that begin with `prefix`, whole."""
        ...

    async def delete_object(self, bucket: str, key: str) -> None:
        """Delete an object; a missing one is success."""
        ...

    async def create_signed_url(self, bucket: str, key: str, ttl: timedelta) -> str:
        """A URL that reads the object without credentials until `ttl` has passed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeInfo:
    """The properties needed to make a volume like this one. `iops` is None where the type has none."""

    volume_type: str
    iops: int | None = None


@runtime_checkable
class VolumeSnapshotter(Protocol):
    """Takes snapshots of volumes and makes volumes of them. (docs/spec: PLG 7.2)

    A snapshot location's `spec.provider` is the name. Persistent volumes are whole objects; `volume_az` may
    be empty.
    """

    @property
    def name(self) -> str:
        """The registered name, `<domain>/<provider>`."""
        ...

    async def init(self, config: Mapping[str, str]) -> None:
        """Called first, with the location's `config`. `check_config_keys` refuses unknown keys."""
        ...

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        """Make a volume and return its id."""
        ...

    async def get_volume_info(self, volume_id: str, volume_az: str) -> VolumeInfo:
        """Type and speed of a volume."""
        ...

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        """Take a snapshot with these tags and return its id."""
        ...

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot."""
        ...

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        """The id of a persistent volume at the provider; empty if it is of another provider."""
        ...

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        """The persistent volume, changed to stand for the volume of that id."""
        ...


@runtime_checkable
class Configurable(Protocol):
    """An item action that takes settings."""

    async def configure(self, config: Mapping[str, str]) -> None:
        """Called before `applies_to`, once an operation, with the data of the action's ConfigMap.

        Empty without one. Raise PluginError for what is wrong in it. (docs/spec: PLG 9)
        """
        ...


@runtime_checkable
class SelectiveBackupItemAction(BackupItemAction, Protocol):
    """An action that can decide by raw JSON that it does not need an item. It never renames items.

    Items that no action needs go into the backup as the API server sent them, without being decoded:
    several times as fast. Only actions that run in this process can do this.
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
    items, or a user without the right to read it, does not need it. Only actions of this process can do this.
    """

    async def prepare(self) -> None:
        """Read it, unless that is done. What cannot be read is reported by `execute`, for each item."""
        ...
