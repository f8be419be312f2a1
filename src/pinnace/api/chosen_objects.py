"""Single objects that a restore is limited to, as an annotation of the Restore carries them. Pure.

Velero has no such field, and its server would restore everything: the command line asks which server runs
before it sends such a Restore. (docs/adr/071)
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

_VERSIONED: Final = re.compile(r"([^/]+/)?v\d\w*/[^/]+")
"""A kind behind its version. Other words with a blank behind are names: those of roles may have blanks."""


class ObjectName(msgspec.Struct, frozen=True):
    """One object as a user names it; the namespace of a cluster-scoped one is empty."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """`deployments/shop/web`, or `storageclasses/fast`."""
        return "/".join(filter(None, (self.kind, self.namespace, self.name)))


class ChosenObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a restore is limited to.

    Attributes:
        owners: whether the objects that own them are restored, too.
        dependencies: whether what their pods refer to is restored, too: Secrets, ConfigMaps, claims and
            service accounts.
    """

    objects: Sequence[ObjectName]
    owners: bool = False
    dependencies: bool = False


class _Stored(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    objects: list[str]
    owners: bool = False
    dependencies: bool = False


def parse_object(text: str) -> ObjectName:
    """Read an object in any form of messages and lists.

    These are `KIND/NAMESPACE/NAME`, `KIND/NAME`, `KIND/NAME in NAMESPACE` and `VERSION/KIND NAMESPACE/NAME`;
    the kind may be `deployments.apps` or `Deployment`, the version `v1` or `apps/v1`.

    Raises:
        ValueError: it is in none of them.
    """
    match text.split():
        case [kind, "in", namespace] if kind.count("/") == 1 and "/" not in namespace:
            first, name = kind.split("/")
            parts = [first, namespace, name]
        case [kind, title] if "/" not in kind or _VERSIONED.fullmatch(kind):
            parts = [_kind_of(kind), *title.split("/")]
        case _:
            parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError(
            f'"{text}" names no object: write KIND/NAMESPACE/NAME, or KIND/NAME if it has no namespace'
        )
    return ObjectName(parts[0], parts[1] if len(parts) == 3 else "", parts[-1])


def _kind_of(word: str) -> str:
    """`deployment.apps` of `apps/v1/Deployment`, as a list of kinds shows it, maybe with a colon behind."""
    match word.removesuffix(":").split("/"):
        case [group, _, kind]:
            return f"{kind}.{group}"
        case [_, kind]:
            return kind
        case parts:
            return "/".join(parts)


def encode_chosen(chosen: ChosenObjects) -> str:
    """Return the value of the annotation."""
    stored = _Stored([str(each) for each in chosen.objects], chosen.owners, chosen.dependencies)
    return msgspec.json.encode(stored).decode()


def decode_chosen(value: str) -> ChosenObjects:
    """Read the value of the annotation.

    Raises:
        ValueError: it names no object, or cannot be read.
    """
    try:
        stored = msgspec.json.decode(value, type=_Stored)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not valid: {error}") from error
    if not stored.objects:
        raise ValueError("it names no object")
    return ChosenObjects(
        objects=tuple(map(parse_object, stored.objects)),
        owners=stored.owners,
        dependencies=stored.dependencies,
    )
