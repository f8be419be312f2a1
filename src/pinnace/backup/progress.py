"""The lines of a backup's log that tell how far it is. (docs/spec: BKP 13)"""

from typing import Final

from pinnace.archive.runlog import RunLog
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice

PROGRESS_FAILURE: Final = Notice(
    Code.PROGRESS_NOT_SHOWN, "Got error trying to update backup's status.progress"
)
PROGRESS_MESSAGE: Final = (
    "Backed up %d items out of an estimated total of %d (estimate will change throughout the backup)"
)
"""The line that is logged after each collected item, for people and for tools that wait for it."""


def item_fields(group_resource: str, namespace: str, name: str) -> dict[str, str]:
    """An item in lines of the log."""
    return {"resource": group_resource, "namespace": namespace, "name": name}


def trace_item(log: RunLog, group_resource: str, namespace: str, name: str) -> None:
    """Write the two debug lines of an item that users of Velero look for."""
    fields = item_fields(group_resource, namespace, name)
    log.debug("Processing item", progress="", **fields)
    log.debug("Backing up item", **fields)
