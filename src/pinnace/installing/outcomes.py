"""The outcomes of sending an object. Pure."""

from enum import StrEnum

from pinnace.api.objects import JSONObject


class InstallOutcome(StrEnum):
    """The outcome of an object of an installation."""

    CREATED = "created"
    APPLIED = "applied"
    """The object was brought in line, whether or not anything changed."""
    WIDENED = "widened"
    """A definition got the fields of this version."""
    LEFT = "left"
    """The object existed, and was left as it is."""
    NOT_CHANGED = "not changed"
    """The object cannot be changed; a warning says why."""


def title(obj: JSONObject) -> str:
    """Kind and name, as `Deployment/velero`."""
    return f"{obj['kind']}/{obj['metadata']['name']}"
