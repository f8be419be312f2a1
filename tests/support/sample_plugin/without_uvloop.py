"""The sample as a program without uvloop."""

import sys

from pinnace.plugins import serve
from tests.support.sample_plugin import plugins

sys.modules["uvloop"] = None  # type: ignore[assignment]  # what cannot be imported
raise SystemExit(serve(plugins))
