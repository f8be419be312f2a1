"""The hold on a backup: an annotation that keeps it from every deletion. Pure. (docs/adr/128)"""

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping


def hold_of(backup: JSONObject) -> str | None:
    """The reason of the hold on a Backup object, which may be empty; None if it is not held."""
    notes = mapping(backup, "metadata", "annotations")
    return str(notes[labels.HOLD]) if labels.HOLD in notes else None


def held(reason: str) -> str:
    """That a backup is held, for people."""
    return f"held: {reason}" if reason else "held"


def refusal(backup: str, reason: str) -> str:
    """Why a backup is not deleted, for whoever asks."""
    return f"backup {backup} is {held(reason)}; `backup release` lets it go"
