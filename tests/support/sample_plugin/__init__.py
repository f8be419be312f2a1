"""A plugin of all five kinds that does the same as the compiled one in hack/tools/plugin/sample.

Actions do to an item what its annotation `example.io/do` says; the store keeps objects in memory; the
snapshotter makes names from its arguments.
"""

from pinnace.plugins import Plugins
from tests.support.sample_plugin.actions import BackupAction, DeleteAction, RestoreAction
from tests.support.sample_plugin.stores import MemoryStore, Snapshotter

plugins = Plugins(
    backup_item_actions=[BackupAction],
    restore_item_actions=[RestoreAction],
    delete_item_actions=[DeleteAction],
    object_stores=[MemoryStore],
    volume_snapshotters=[Snapshotter],
)
