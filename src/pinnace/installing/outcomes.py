"""The outcomes of sending an object, as texts for users. Pure."""

from typing import Final

from pinnace.api.objects import JSONObject

CREATED: Final = "Created"
APPLIED: Final = "Applied"
WIDENED: Final = "Widened by the fields of this version"
LEFT: Final = "Existed and were left as they are (--apply brings them in line with the flags)"
NOT_CHANGED: Final = "Not changed"


def title(obj: JSONObject) -> str:
    """Kind and name, as `Deployment/velero`."""
    return f"{obj['kind']}/{obj['metadata']['name']}"
