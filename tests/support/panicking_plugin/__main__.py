"""The plugin that panics, as a program."""

from pinnace.plugins import serve
from tests.support.panicking_plugin import plugins

raise SystemExit(serve(plugins))
