"""Which requests are reconciled when an object changes. Pure. (docs/spec: NAC 11)"""

from collections.abc import Callable, Iterable

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.resuming import is_requested
from pinnace.nonadmin.flows.conditions import holds
from pinnace.nonadmin.identity import origin_key
from pinnace.nonadmin.objects import generation
from pinnace.runtime.keys import Key

KeysOf = Callable[[JSONObject], Iterable[Key]]


def is_edited(old: JSONObject, new: JSONObject) -> bool:
    """Whether the spec changed, deletion began or a resumption is asked for; own writes never do that."""
    return generation(old) != generation(new) or (is_requested(new) and not is_requested(old))


def origin_keys(origin: Origin) -> KeysOf:
    """The request that an object of the server's namespace was made for."""

    def keys(obj: JSONObject) -> Iterable[Key]:
        key = origin_key(obj, origin)
        return () if key is None else (key,)

    return keys


def owner_keys(kind: str, find: Callable[[Key], JSONObject | None], origin: Origin) -> KeysOf:
    """The request behind the Backup or Restore that owns an object.

    Args:
        kind: of the owner.
        find: the owner by its key, as last seen.
    """

    def keys(obj: JSONObject) -> Iterable[Key]:
        for owner in listed(obj, "metadata", "ownerReferences"):
            if text(owner, "kind") == kind and text(owner, "apiVersion") == "velero.io/v1":
                key = Key(text(obj, "metadata", "namespace"), text(owner, "name"))
                found = find(key)
                origin_of = None if found is None else origin_key(found, origin)
                if origin_of is not None:
                    yield origin_of

    return keys


def waiting_for(dependents: Callable[[str, str], Iterable[JSONObject]]) -> KeysOf:
    """The requests that name an object and have no Backup or Restore yet: they may wait for that object.

    Args:
        dependents: of an object's namespace and name.
    """

    def keys(obj: JSONObject) -> Iterable[Key]:
        for dependent in dependents(*Key.of(obj)):
            if not holds(mapping(dependent, "status"), "Queued"):
                yield Key.of(dependent)

    return keys
