"""The action as a plugin's program."""

from pinnace.plugins import serve
from tests.support.everything_plugin import plugins

raise SystemExit(serve(plugins))
