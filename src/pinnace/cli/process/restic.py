"""`repo get`, formerly `restic repo get`, and `restic server`. (docs/spec: CLI 7.6, SRV 16, BEY 6.1)"""

from pinnace.cli.common.commands import get_command, group_of
from pinnace.cli.process.node_agent import server

get = get_command("repo", "repositories of volume data")
repo = group_of("repo", "Work with the repositories of volume data.", get)
group = group_of("restic", "Work with restic, which backs up volumes.", repo, server)
