"""The name of an object within its kind: what queues hold and caches are looked up by."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pinnace.api.objects import text


class Key(NamedTuple):
    """Namespace and name; the namespace is empty for cluster-scoped objects. (docs/spec: CTL 2.1)"""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> "Key":
        """The key of an object."""
        return cls(text(obj, "metadata", "namespace"), text(obj, "metadata", "name"))
