"""The subjects of role bindings, and the namespaces whose accounts they are. Pure. (docs/spec: RST 16)

The accounts of a namespace are named in three forms: a ServiceAccount by its namespace, all of them by
`Group system:serviceaccounts:NAMESPACE`, and one by `User system:serviceaccount:NAMESPACE:NAME`.
"""

from collections.abc import Mapping
from typing import Final

from pinnace.api.objects import JSONObject, text

_GROUP: Final = "system:serviceaccounts:"
_USER: Final = "system:serviceaccount:"


def namespace_of(subject: JSONObject) -> str:
    """The namespace whose accounts a subject is; empty for users and groups of other kinds."""
    name, kind = text(subject, "name"), text(subject, "kind")
    if kind == "Group":
        return name.removeprefix(_GROUP) if name.startswith(_GROUP) else ""
    if kind == "User":
        namespace, colon, account = name.removeprefix(_USER).partition(":")
        return namespace if name.startswith(_USER) and colon and account else ""
    return text(subject, "namespace")


def mapped(subject: JSONObject, mapping: Mapping[str, str]) -> JSONObject:
    """The subject in the namespace that its own is mapped to; the same one if it is not."""
    old = namespace_of(subject)
    new = mapping.get(old)
    if not old or new is None:
        return subject
    kind, name = text(subject, "kind"), text(subject, "name")
    if kind == "Group":
        return {**subject, "name": _GROUP + new}
    if kind == "User":
        return {**subject, "name": f"{_USER}{new}{name.removeprefix(_USER + old)}"}
    return {**subject, "namespace": new}


def same_subject(one: JSONObject, other: JSONObject) -> bool:
    """Whether two subjects are the same; the API group follows from the kind, and may be left out."""
    return all(text(one, field) == text(other, field) for field in ("kind", "name", "namespace"))
