"""A plugin with an object store in a folder and nothing else: a Velero program then writes where we read."""

from pinnace.plugins import Plugins
from tests.support.whole_plugin.store import FolderStore

plugins = Plugins(object_stores=[FolderStore])
