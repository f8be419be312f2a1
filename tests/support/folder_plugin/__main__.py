"""The same as a plugin's program."""

from pinnace.plugins import serve
from tests.support.folder_plugin import plugins

raise SystemExit(serve(plugins))
