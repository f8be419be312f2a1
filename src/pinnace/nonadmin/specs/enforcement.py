"""Enforcement of the fields that an administrator prescribes: specs are checked, and filled in. Pure.

(docs/spec: NAC 6.4)
"""

from msgspec import Struct

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.storage_location import BackupStorageLocationSpec
from pinnace.nonadmin.objects import present
from pinnace.nonadmin.settings.values import fields, is_zero, same, shown


def violation(struct: type[Struct], enforced: JSONObject, given: JSONObject, path: str) -> str:
    """The first field that contradicts the administrator, as the message of a condition; empty if none does.

    Args:
        path: of the spec, for the message.
    """
    for name, node in fields(struct).items():
        wanted, wish = enforced.get(name), given.get(name)
        if not is_zero(wanted, node) and not is_zero(wish, node) and not same(wanted, wish, node):
            return f"the administrator has restricted {path}.{name} field value to {shown(wanted, node)}"
    return ""


def location_violation(enforced: JSONObject, given: JSONObject) -> str:
    """The same for a location, whose bucket, prefix and authority are compared together."""
    path = "spec.backupStorageLocationSpec"
    for name, node in fields(BackupStorageLocationSpec).items():
        wanted, wish = enforced.get(name), given.get(name)
        if is_zero(wanted, node) or is_zero(wish, node):
            continue
        if name == "objectStorage":
            store, wished = mapping(wanted), mapping(wish)
            bucket, prefix, authority = (text(store, part) for part in ("bucket", "prefix", "caCert"))
            if (bucket, prefix, authority) != tuple(
                text(wished, part) for part in ("bucket", "prefix", "caCert")
            ):
                return (
                    f"the administrator has restricted {path}.objectStorage field value(s) to: "
                    f"bucket: {bucket}, prefix: {prefix}, caCert: {authority}"
                )
        elif not same(wanted, wish, node):
            return f"the administrator has restricted {path}.{name} field to: {_shown(name, wanted)}"
    return ""


def _shown(name: str, wanted: object) -> str:
    if name == "credential":
        return f"name: {text(wanted, 'name')}, key: {text(wanted, 'key')}"
    if name == "config":
        config = mapping(wanted)
        return ", ".join(f"{key}: {config[key]}" for key in sorted(config))
    return shown(wanted, fields(BackupStorageLocationSpec)[name])


def filled_in(struct: type[Struct], enforced: JSONObject, given: JSONObject) -> JSONObject:
    """A copy of a spec with the prescribed value of each field that it does not give."""
    filled = present(given)
    for name, node in fields(struct).items():
        wanted = enforced.get(name)
        if not is_zero(wanted, node) and is_zero(given.get(name), node):
            filled[name] = wanted
    return filled
