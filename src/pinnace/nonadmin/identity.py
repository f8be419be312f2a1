"""The owner of an object of the server's namespace: unique ids, labels, proof of ownership. Pure.

Labels find and select, annotations state ownership. A tenant can copy any label onto an own object, and the
owner of a bucket can forge both on the objects in it; so a request owns an object only if the annotations
name the request and the location that holds the object does not belong to another namespace.
(docs/spec: NAC 3, 17 A7, A14)
"""

from collections.abc import Iterable

from pinnace.api.nonadmin.names import (
    COMMON_LABELS,
    MAX_ID_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    NAMESPACE_UID_ANNOTATION,
    ROOM_CHARACTERS,
    SYNCED_FROM_LABEL,
    Origin,
    is_object_name,
)
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.runtime.keys import Key


class Ambiguous(Exception):
    """Several objects have the same unique id; which is the right one cannot be known."""


def new_id(namespace: str, name: str, uuid: str) -> str:
    """The unique id of a request: as much of namespace and name as fits, and a UUID. (docs/spec: NAC 3.3)"""
    joined = _joined(namespace, name, uuid)
    if len(joined) <= MAX_ID_CHARACTERS:
        return joined
    if len(namespace) > ROOM_CHARACTERS:
        return _joined(_head(namespace, ROOM_CHARACTERS), "", uuid)
    return _joined(namespace, _head(name, ROOM_CHARACTERS - len(namespace)), uuid)


def _joined(*parts: str) -> str:
    return "-".join(part for part in parts if part)


def _head(part: str, characters: int) -> str:
    # A hyphen follows, and no name may have one after a dot.
    return part[:characters].rstrip(".-")


def is_valid_id(value: str) -> bool:
    """Whether the value of a label or annotation can be an id. (docs/spec: NAC 3.1)"""
    return 0 < len(value) <= MAX_VALUE_CHARACTERS


def id_of(obj: JSONObject, origin: Origin) -> str:
    """The unique id an object is labelled with."""
    return text(obj, "metadata", "labels", origin.id_label)


def has_common_labels(obj: JSONObject) -> bool:
    """Whether an object of the server's namespace was made for a tenant."""
    labels = mapping(obj, "metadata", "labels")
    return all(labels.get(label) == value for label, value in COMMON_LABELS.items())


def origin_key(obj: JSONObject, origin: Origin) -> Key | None:
    """The request that an object says it was made for; None if its labels and annotations are incomplete."""
    annotations = mapping(obj, "metadata", "annotations")
    namespace, name = (
        text(annotations, key) for key in (origin.namespace_annotation, origin.name_annotation)
    )
    if not (has_common_labels(obj) and is_object_name(namespace) and is_object_name(name)):
        return None  # no request has such a name: the owner of a bucket can write any
    return Key(namespace, name) if is_valid_id(id_of(obj, origin)) else None


def owner_metadata(origin: Origin, unique_id: str, request: Key) -> JSONObject:
    """Labels and annotations of an object that is made for a request. (docs/spec: NAC 3.4)"""
    return {
        "labels": {**COMMON_LABELS, origin.id_label: unique_id},
        "annotations": {
            origin.name_annotation: request.name,
            origin.namespace_annotation: request.namespace,
        },
    }


def synced_from(non_admin_backup: JSONObject) -> str:
    """The unique id of the stored backup that a NonAdminBackup says it was made for; empty if none."""
    value = text(non_admin_backup, "metadata", "labels", SYNCED_FROM_LABEL)
    return value if is_valid_id(value) else ""


def tenant_of_location(location: JSONObject | None) -> str:
    """The namespace that a BackupStorageLocation belongs to; empty for the administrator's."""
    return (
        ""
        if location is None
        else text(location, "metadata", "annotations", Origin.LOCATION.namespace_annotation)
    )


def is_administrators(backup: JSONObject | None, location: JSONObject | None) -> bool:
    """Whether the administrator's own location holds a Backup, or will hold it.

    A location that is gone may have been a tenant's. A Backup that names no location yet gets a default one:
    a tenant's location is named from the beginning.
    """
    known = location is not None or not text(backup, "spec", "storageLocation")
    return known and not tenant_of_location(location)


def former_namespace(backup: JSONObject | None, location: JSONObject | None) -> str:
    """The uid of the namespace that a Backup was made of; empty unless the server itself noted it.

    Backups in a tenant's own bucket have none: nothing has to be kept from the holder of its keys.
    (docs/spec: NAC 17 A29)
    """
    if not is_administrators(backup, location):
        return ""
    return text(backup, "metadata", "annotations", NAMESPACE_UID_ANNOTATION)


def is_own_backup(backup: JSONObject, location: JSONObject | None, non_admin_backup: Key) -> bool:
    """Whether a Backup was made for a request, whatever the owner of its bucket may have written on it."""
    tenant = tenant_of_location(location)
    return origin_key(backup, Origin.BACKUP) == non_admin_backup and tenant in (
        "",
        non_admin_backup.namespace,
    )


def unique_object(
    candidates: Iterable[JSONObject], *, kind: str, label: str, value: str, namespace: str
) -> JSONObject | None:
    """The only object with a label value; None if there is none.

    If one of several has the id as its name, those of other locations are impostors: only the owner of such a
    location can have put them there. (docs/spec: NAC 3.3, A14)

    Raises:
        Ambiguous: there are several.
    """
    found = list(candidates)
    named = [obj for obj in found if text(obj, "metadata", "name") == value]
    if named:
        location = text(named[0], "spec", "storageLocation")
        found = [obj for obj in found if obj is named[0] or text(obj, "spec", "storageLocation") == location]
    if len(found) > 1:
        raise Ambiguous(
            f"multiple {kind} objects found with label {label}={value} in namespace '{namespace}'"
        )
    return found[0] if found else None
