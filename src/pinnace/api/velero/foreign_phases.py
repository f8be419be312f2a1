"""The phases in which only a Velero server of a later version can go on with a run. Pure. (BEY 2.2)"""

from typing import Final

from pinnace.api.labels import ITEM_OPERATIONS
from pinnace.api.objects import JSONObject, text

UPLOADED: Final = frozenset(
    {
        "WaitingForPluginOperations",
        "WaitingForPluginOperationsPartiallyFailed",
        "Finalizing",
        "FinalizingPartiallyFailed",
    }
)
"""The tarball is stored, or restored, but not all that belongs to it."""


def is_foreign(obj: JSONObject) -> bool:
    """Whether the phase of a Backup or Restore is one that Pinnace did not set and does not leave."""
    if text(obj, "metadata", "annotations", ITEM_OPERATIONS):
        return False
    return text(obj, "status", "phase") in UPLOADED
