"""Actions of both versions side by side."""

from typing import Any

from pinnace.plugins.host.options import LaunchOptions
from pinnace.plugins.installed import InstalledPlugins
from pinnace.plugins.kinds import PluginId, PluginKind
from tests.support.later_plugin import BackupAction as Later
from tests.support.sample_plugin.actions import BackupAction as Sample


def test_a_name_in_both_versions_is_used_in_version_2_only() -> None:
    factories: dict[PluginId, Any] = {
        PluginId(PluginKind.BACKUP_ITEM_ACTION, Later.name): Sample,
        PluginId(PluginKind.BACKUP_ITEM_ACTION, Sample.name): Sample,
        PluginId(PluginKind.BACKUP_ITEM_ACTION_V2, Later.name): Later,
    }
    operation = InstalledPlugins(factories, (), LaunchOptions(environ={})).operation()

    assert [type(action).__name__ for action in operation.backup_actions] == [
        "LocalBackupItemAction",
        "LocalBackupItemActionV2",
    ]
