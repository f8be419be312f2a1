"""`restic repo get` and `restic server`. (docs/spec: CLI 7.6, SRV 16)"""

from pinnace.cli.common.commands import get_command, group_of
from pinnace.cli.process.node_agent import server

get = get_command("restic repo", "restic repositories")
repo = group_of("repo", "Work with restic repositories.", get)
group = group_of("restic", "Work with restic, which backs up volumes.", repo, server)
