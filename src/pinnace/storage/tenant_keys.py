"""Names of keys in messages about the credentials of tenants. Pure."""


def shown_key(name: str) -> str:
    """The name of a key in a message; a value in its place stays out of it."""
    return repr(name[:40])
