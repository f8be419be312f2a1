"""Labels, annotations, finalizers and fixed words of the self-service kinds, once. (docs/spec: NAC 3, 5.2)"""

import re
from enum import StrEnum
from typing import Final

from pinnace.api.meta import ObjectMeta

OADP_LABEL: Final = "openshift.io/oadp"
OADP_VALUE: Final = "True"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY_VALUE: Final = "oadp-nac-controller"

COMMON_LABELS: Final = {OADP_LABEL: OADP_VALUE, MANAGED_BY_LABEL: MANAGED_BY_VALUE}
"""Labels of every object that is made in the server's namespace."""

SYNCED_FROM_LABEL: Final = "openshift.io/oadp-nab-synced-from-nacuuid"

NAMESPACE_UID_ANNOTATION: Final = "pinnace.io/nab-origin-namespace-uid"
"""Annotation of Backups: the UID of the namespace that was backed up. (docs/spec: NAC 17 A29)"""

TRUST_LABEL: Final = "pinnace.io/trust-tenant-location"
TRUST_VALUE: Final = "true"
"""Label of an administrator's Restore: everything in a tenant's location may be restored. (NAC 17 A13)"""

MAX_HOOK_TIME_ANNOTATION: Final = "pinnace.io/max-hook-time"
"""Annotation of tenants' Backups and Restores: how long all hooks together may take; 0s means no limit."""

ALLOWED_ENDPOINTS_ANNOTATION: Final = "pinnace.io/allowed-endpoints"
"""Annotation of a tenant's BackupStorageLocation: the endpoints that the administrator allows, separated by
commas."""

RESTORABLE_ANNOTATION: Final = "pinnace.io/nar-restorable-resources"
"""Annotation of a tenant's Restore: kinds that the administrator's settings allow beyond the role `edit`,
separated by commas. (NAC 17 A36)"""

MAX_VALUE_CHARACTERS: Final = 253

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OBJECT_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
MAX_ID_CHARACTERS: Final = 63
"""The limit of a label value: a unique id is used as a name and as a label value."""

UUID_CHARACTERS: Final = 36
ROOM_CHARACTERS: Final = MAX_ID_CHARACTERS - UUID_CHARACTERS - 2
"""The characters of a unique id that are left for namespace and name."""


def is_object_name(text: str) -> bool:
    """Whether an object can have that name."""
    return len(text) <= MAX_VALUE_CHARACTERS and _OBJECT_NAME.fullmatch(text) is not None


def is_unique_id(text: str, namespace: str) -> bool:
    """Whether self-service can have made up this name for an object of this namespace.

    A tenant's bucket can hold a backup of any name, even the one that a Schedule will use next.
    """
    head = namespace[:ROOM_CHARACTERS].rstrip(".-") if len(namespace) > ROOM_CHARACTERS else namespace
    return (
        len(text) <= MAX_ID_CHARACTERS
        and is_object_name(text)
        and text.startswith(f"{head}-")
        and _UUID.fullmatch(text[-UUID_CHARACTERS:]) is not None
    )


class Origin(StrEnum):
    """The kind of request that an object of the server's namespace was made from."""

    BACKUP = "nab"
    RESTORE = "nar"
    LOCATION = "nabsl"
    DOWNLOAD = "nadr"

    @property
    def id_label(self) -> str:
        """The label with the unique id; of downloads it is the request's UID."""
        return f"openshift.io/oadp-{self}-origin-nacuuid"

    @property
    def name_annotation(self) -> str:
        """The annotation with the request's name."""
        return f"openshift.io/oadp-{self}-origin-name"

    @property
    def namespace_annotation(self) -> str:
        """The annotation with the request's namespace."""
        return f"openshift.io/oadp-{self}-origin-namespace"


def tenant_of(location: ObjectMeta) -> str:
    """The namespace that a BackupStorageLocation belongs to; empty for the administrator's."""
    return location.annotations.get(Origin.LOCATION.namespace_annotation, "")


BACKUP_FINALIZER: Final = "nonadminbackup.oadp.openshift.io/finalizer"
RESTORE_FINALIZER: Final = "nonadminrestore.oadp.openshift.io/finalizer"
LOCATION_FINALIZER: Final = "nonadminbackupstoragelocation.oadp.openshift.io/finalizer"
