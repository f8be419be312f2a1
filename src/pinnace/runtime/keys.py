"""The name of an object within its kind: what queues hold and caches are looked up by."""

from collections.abc import Mapping
from typing import Any, NamedTuple

"""An object of a cluster as decoded from JSON."""


class Key(NamedTuple):
    """Namespace and name; the namespace is empty for cluster-scoped objects. (docs/spec: CTL 2.1)"""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> "Key":
        """The key of an object."""
        metadata = obj.get("metadata") or {}
        return cls(metadata.get("namespace") or "", metadata.get("name") or "")

    @classmethod
    def parse(cls, text: str) -> "Key":
        """The key written as `namespace/name` or `name`.

        Raises:
            ValueError: more than one `/`, or no name.
        """
        namespace, slash, name = text.rpartition("/")
        if not name or "/" in namespace or (slash and not namespace):
            raise ValueError(f"unexpected key format: {text!r}")
        return cls(namespace, name)
