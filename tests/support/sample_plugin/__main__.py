"""The sample as a plugin's program."""

from pinnace.plugins import serve
from tests.support.sample_plugin import plugins

raise SystemExit(serve(plugins))
