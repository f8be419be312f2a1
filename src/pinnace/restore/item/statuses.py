"""Decides which objects get their status back. Pure. (docs/spec: BEY 5.2)"""

from collections.abc import Callable
from typing import Self

import msgspec
import orjson

from pinnace.api import labels
from pinnace.api.objects import JSONObject, member
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.velero.restore import RestoreSpec

_ANNOTATION = labels.RESTORE_STATUS.encode()


class StatusFilter(msgspec.Struct, frozen=True):
    """The statuses that a restore writes.

    Attributes:
        resources: None if the Restore asks for none; an annotation of an object decides first.
        allowed: False for tenants, who may not write a status themselves.
    """

    resources: IncludesExcludes | None
    allowed: bool = True

    @classmethod
    def from_spec(cls, spec: RestoreSpec, canonical: Callable[[str], str], *, allowed: bool = True) -> Self:
        """Read `spec.restoreStatus`; without includes, it means all resources except the excluded ones."""
        wanted = spec.restore_status
        if wanted is None:
            return cls(None, allowed)
        return cls(
            IncludesExcludes.resolved(wanted.included_resources, wanted.excluded_resources, canonical),
            allowed,
        )

    def status_of(self, group_resource: str, raw: bytes) -> JSONObject | None:
        """The status to write for an object of the backup; None if none is written."""
        by_kind = self.resources is not None and self.resources.matches(group_resource)
        if not self.allowed or not (by_kind or _ANNOTATION in raw):
            return None
        from_backup = orjson.loads(raw)
        status = from_backup.get("status")
        if not isinstance(status, dict) or not status:
            return None
        annotation = member(from_backup, "metadata", "annotations", labels.RESTORE_STATUS)
        match annotation.strip().lower() if isinstance(annotation, str) else "":
            case "true":
                return status
            case "false":
                return None
        return status if by_kind else None
