"""Reads objects that a tenant may have written: no member of a wrong type makes a function fail. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from pinnace.api import kinds
from pinnace.api.nonadmin.restore_limits import MAX_SPEC_BYTES
from pinnace.api.objects import JSONObject, listed, member, text
from pinnace.kube.resources import APIResource, known

NON_ADMIN_BACKUPS: Final = known(kinds.NON_ADMIN_BACKUPS)
NON_ADMIN_RESTORES: Final = known(kinds.NON_ADMIN_RESTORES)
NON_ADMIN_LOCATIONS: Final = known(kinds.NON_ADMIN_LOCATIONS)
NON_ADMIN_LOCATION_REQUESTS: Final = known(kinds.NON_ADMIN_LOCATION_REQUESTS)
NON_ADMIN_DOWNLOADS: Final = known(kinds.NON_ADMIN_DOWNLOADS)

NOT_USED: Final = "NonAdminBackupStorageLocationNotUsed"
"""The condition of a request for a file that is not in a location of the tenant. (NAC 13)"""


def present(obj: Mapping[str, Any]) -> JSONObject:
    """The members that are not null, which is the same as absent."""
    return {name: value for name, value in obj.items() if value is not None}


def is_too_large(spec: JSONObject) -> bool:
    """Whether a spec is so large that the request could not hold it once more in its status. (NAC 17 A32)"""
    return len(json.dumps(spec)) > MAX_SPEC_BYTES


def generation(obj: JSONObject) -> int:
    """The generation of the spec; 0 for an object that has none."""
    found = member(obj, "metadata", "generation")
    return found if isinstance(found, int) else 0


def is_being_deleted(obj: JSONObject) -> bool:
    """Whether deletion has begun: the API server waits for finalizers to be removed."""
    return bool(text(obj, "metadata", "deletionTimestamp"))


def has_finalizer(obj: JSONObject, finalizer: str) -> bool:
    """Whether an object has the finalizer."""
    return finalizer in listed(obj, "metadata", "finalizers")


def velero_body(resource: APIResource, metadata: JSONObject, spec: JSONObject) -> JSONObject:
    """The body of a new object."""
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**kind, "metadata": metadata, "spec": spec}
