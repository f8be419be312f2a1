"""The plugin as a program."""

from pinnace.plugins import serve
from tests.support.waiting_plugin import plugins

raise SystemExit(serve(plugins))
