"""The same as a plugin's program."""

from pinnace.plugins import serve
from tests.support.whole_plugin import plugins

raise SystemExit(serve(plugins))
