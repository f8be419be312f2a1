"""`plugin`. (docs/spec: CLI 8.1)"""

from pinnace.cli.common.commands import group_of
from pinnace.cli.plugin.add import add
from pinnace.cli.plugin.get import get
from pinnace.cli.plugin.remove import remove

group = group_of("plugin", "Work with the plugins of the server.", add, remove, get)
