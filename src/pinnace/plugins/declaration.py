"""The plugins that a Python package offers, as the one object that every way of running them starts from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pinnace.plugins.asynchronous import BackupItemActionV2, ItemBlockAction, RestoreItemActionV2
from pinnace.plugins.errors import DuplicatePlugin, PluginLoadError, describe
from pinnace.plugins.kinds import PluginId, PluginKind, check_name
from pinnace.plugins.protocols import (
    BackupItemAction,
    DeleteItemAction,
    ObjectStorePlugin,
    RestoreItemAction,
    VolumeSnapshotter,
)


class Named(Protocol):
    """The name that all plugins have."""

    @property
    def name(self) -> str:
        """The registered name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """The plugins of a package, each as something to call without arguments: usually the class.

    An instance is made for each operation (a backup, a restore, a deletion, an opened location), so that
    operations at the same time do not share any.
    """

    backup_item_actions: Sequence[Callable[[], BackupItemAction]] = ()
    restore_item_actions: Sequence[Callable[[], RestoreItemAction]] = ()
    delete_item_actions: Sequence[Callable[[], DeleteItemAction]] = ()
    object_stores: Sequence[Callable[[], ObjectStorePlugin]] = ()
    volume_snapshotters: Sequence[Callable[[], VolumeSnapshotter]] = ()
    backup_item_actions_v2: Sequence[Callable[[], BackupItemActionV2]] = ()
    restore_item_actions_v2: Sequence[Callable[[], RestoreItemActionV2]] = ()
    item_block_actions: Sequence[Callable[[], ItemBlockAction]] = ()

    def factories(self) -> Iterator[tuple[PluginKind, Callable[[], Named]]]:
        """All of them with their kind."""
        for kind, factories in (
            (PluginKind.BACKUP_ITEM_ACTION, self.backup_item_actions),
            (PluginKind.VOLUME_SNAPSHOTTER, self.volume_snapshotters),
            (PluginKind.OBJECT_STORE, self.object_stores),
            (PluginKind.RESTORE_ITEM_ACTION, self.restore_item_actions),
            (PluginKind.DELETE_ITEM_ACTION, self.delete_item_actions),
            (PluginKind.BACKUP_ITEM_ACTION_V2, self.backup_item_actions_v2),
            (PluginKind.RESTORE_ITEM_ACTION_V2, self.restore_item_actions_v2),
            (PluginKind.ITEM_BLOCK_ACTION, self.item_block_actions),
        ):
            for factory in factories:
                yield kind, factory


_TYPES: dict[PluginKind, type] = {
    PluginKind.BACKUP_ITEM_ACTION: BackupItemAction,
    PluginKind.VOLUME_SNAPSHOTTER: VolumeSnapshotter,
    PluginKind.OBJECT_STORE: ObjectStorePlugin,
    PluginKind.RESTORE_ITEM_ACTION: RestoreItemAction,
    PluginKind.DELETE_ITEM_ACTION: DeleteItemAction,
    PluginKind.BACKUP_ITEM_ACTION_V2: BackupItemActionV2,
    PluginKind.RESTORE_ITEM_ACTION_V2: RestoreItemActionV2,
    PluginKind.ITEM_BLOCK_ACTION: ItemBlockAction,
}


def by_id(plugins: Plugins) -> dict[PluginId, Callable[[], Named]]:
    """The factories by kind and name, sorted by name within a kind, as Velero's own framework lists them.

    Makes one instance of each, to learn its name.

    Raises:
        PluginLoadError: an offered object is not a plugin of its kind.
        PluginNameError: a name has the wrong form.
        DuplicatePlugin: two of one kind have the same name.
    """
    found: dict[PluginId, Callable[[], Named]] = {}
    for kind, factory in plugins.factories():
        plugin = PluginId(kind, _instance(kind, factory).name)
        check_name(plugin.name)
        if plugin in found:
            raise DuplicatePlugin(f"{plugin} is registered twice")
        found[plugin] = factory
    order = list(PluginKind)
    return dict(sorted(found.items(), key=lambda entry: (order.index(entry[0].kind), entry[0].name)))


def _instance(kind: PluginKind, factory: Callable[[], Named]) -> Named:
    label = getattr(factory, "__qualname__", repr(factory))
    try:
        plugin = factory()
    except Exception as error:
        # Foreign code: whatever it raises, the operator must learn which plugin it was.
        raise PluginLoadError(f"{kind} {label} cannot be made: {describe(error)}") from error
    if not isinstance(plugin, _TYPES[kind]):
        missing = [each for each in _members(_TYPES[kind]) if not hasattr(plugin, each)]
        raise PluginLoadError(f"{label} is no {kind}: it lacks {', '.join(missing)}")
    if not isinstance(plugin.name, str):
        raise PluginLoadError(f"{kind} {label}: its name is not a text")
    return plugin


def _members(protocol: type) -> list[str]:
    # A protocol may extend another: its own `vars` do not have what it inherits.
    return sorted({name for each in protocol.__mro__[:-1] for name in vars(each) if not name.startswith("_")})
