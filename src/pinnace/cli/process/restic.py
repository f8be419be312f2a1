"""`repo get|change-password`, formerly `restic repo get`, and `restic server`.

(docs/spec: CLI 7.6, SRV 16, BEY 6.1)
"""

from pinnace.cli.common.commands import get_command, group_of
from pinnace.cli.declaring.commands import Examples
from pinnace.cli.process.node_agent import server


def _examples(noun: str) -> Examples:
    return (
        ("List the repositories of volume data", f"pinnace {noun} get"),
        ("With more columns", f"pinnace {noun} get -o wide"),
        ("Of one namespace", f"pinnace {noun} get -l velero.io/volume-namespace=shop"),
    )


_THINGS = "repositories of volume data"
get = get_command("repo", _THINGS, _examples("repo"))
repo = group_of(
    "repo",
    "Work with the repositories of volume data.",
    get,
    lazy={"change-password": "pinnace.cli.process.change_password:change_password"},
)
_former = group_of(
    "repo",
    "Work with the repositories of volume data.",
    get_command("repo", _THINGS, _examples("restic repo")),
)
group = group_of(
    *("restic", "Work with restic, which backs up volumes."),
    *(_former, server),
    short_help="Work with restic repositories.",
)
