"""`plugin`. (docs/spec: CLI 8.1)"""

from pinnace.cli.common.commands import group_of

group = group_of(
    "plugin",
    "Work with the plugins of the server.",
    lazy={
        "add": "pinnace.cli.plugin.add:add",
        "remove": "pinnace.cli.plugin.remove:remove",
        "get": "pinnace.cli.plugin.get:get",
    },
)
