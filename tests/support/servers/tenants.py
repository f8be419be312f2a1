"""The names that self-service gives to objects of tenants."""

import hashlib


def unique_id(namespace: str, name: str) -> str:
    """The unique id of a request, the same each time."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{namespace}-{name}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
