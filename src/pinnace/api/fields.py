"""Annotations that say how a field of an API struct is written and described.

A field's Python type says what it holds; an annotation says what Go's struct tags and CRD markers say in
Velero. `codec` uses them to write objects, `crds` to derive schemas. (docs/spec: API 1)

All API structs are `msgspec.Struct`s with attributes in snake_case and JSON keys in camelCase. Every field
has a default, unknown keys are ignored when reading, and instances are mutable; `copy.deepcopy` gives an
independent one. Fields that are neither annotated nor optional are left out when empty, except durations and
embedded structs, which are always written.
"""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta

ALWAYS_KEY: Final = "always"
REQUIRED_KEY: Final = "required"
NULLABLE_KEY: Final = "nullable"
FORMAT_KEY: Final = "format"
ENUM_KEY: Final = "enum"
MIN_ITEMS_KEY: Final = "min_items"
CONTAINERS_KEY: Final = "containers"

ALWAYS: Final = Meta(extra={ALWAYS_KEY: True})
"""Written even when empty."""

REQUIRED: Final = Meta(extra={ALWAYS_KEY: True, REQUIRED_KEY: True})
"""Written even when empty, and required by the CRD inside its parent. Reading is lenient: absent is empty."""

NULLABLE: Final = Meta(extra={NULLABLE_KEY: True})
"""`null` is valid in the CRD and means the same as absent."""

Time = Annotated[datetime, Meta(tz=True)]
"""An aware time; written in UTC with whole seconds."""

NullableTime = Annotated[Time | None, NULLABLE]

Int64 = Annotated[int, Meta(extra={FORMAT_KEY: "int64"})]
