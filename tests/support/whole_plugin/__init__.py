"""A plugin of all five kinds that stores everything in folders, for whole backups through plugins.

Everything stands below the folder that the variable PINNACE_TEST_PLUGIN_FOLDER names, or that the location's
config names: objects, snapshots, and one line for each item that a delete action saw.
"""

from pinnace.plugins import Plugins
from tests.support.volumes.folder_snapshotter import FolderSnapshotter
from tests.support.whole_plugin.actions import BackupAction, DeleteAction, RestoreAction
from tests.support.whole_plugin.store import FolderStore

plugins = Plugins(
    backup_item_actions=[BackupAction],
    restore_item_actions=[RestoreAction],
    delete_item_actions=[DeleteAction],
    object_stores=[FolderStore],
    volume_snapshotters=[FolderSnapshotter],
)
