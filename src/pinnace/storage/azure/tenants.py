"""Checks that a credentials file of a tenant contains only keys. Pure. (docs/spec: NAC 17 A17)

Such files can also name programs to run, files to read, roles to assume and metadata services to ask, all
with the rights of the server's pod.
"""

from typing import Final

from pinnace.storage.tenant_keys import shown_key

_KEYS: Final = frozenset(
    {
        "AZURE_SUBSCRIPTION_ID",
        "AZURE_TENANT_ID",
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_RESOURCE_GROUP",
        "AZURE_CLOUD_NAME",
        "AZURE_STORAGE_ACCOUNT_ACCESS_KEY",
    }
)


def credentials_problem(given: str) -> str:
    """Why the file is refused; empty if it contains static keys only."""
    for line in given.splitlines():
        name, separator, _ = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not separator or name.strip() not in _KEYS:
            return f"BSL credentials contain {shown_key(name)}, only static keys are allowed"
    return ""
