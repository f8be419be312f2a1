"""The definition of a kind: what `install` tells the API server of it, besides its names."""

from dataclasses import dataclass

from msgspec import Struct

from pinnace.api.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column that `kubectl get` shows."""

    name: str
    type: str
    json_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The schema and the columns of one kind.

    Attributes:
        requires_spec: the API server refuses objects without a spec.
    """

    kind: Kind
    struct: type[Struct]
    status_subresource: bool = False
    columns: tuple[Column, ...] = ()
    requires_spec: bool = False
