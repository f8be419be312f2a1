"""Checks that a credentials file of a tenant contains only keys. Pure. (docs/spec: NAC 17 A17)

Such files can also name programs to run, files to read, roles to assume and metadata services to ask, all
with the rights of the server's pod.
"""

import json
from typing import Final

from pinnace.api.objects import mapping, text
from pinnace.storage.tenant_keys import shown_key

_KEYS: Final = frozenset(
    {
        "type",
        "project_id",
        "private_key_id",
        "private_key",
        "client_email",
        "client_id",
        "auth_uri",
        "token_uri",
        "auth_provider_x509_cert_url",
        "client_x509_cert_url",
        "universe_domain",
    }
)
_TOKEN_URIS: Final = frozenset(
    {"https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/token"}
)


def credentials_problem(given: str) -> str:
    """Why the file is refused; empty if it contains static keys only."""
    try:
        document = json.loads(given)
    except (json.JSONDecodeError, RecursionError):
        return "BSL credentials are not a GCP key file"
    if text(document, "type") != "service_account":
        return "BSL credentials are not the key file of a service account, only static keys are allowed"
    for name in mapping(document):
        if name not in _KEYS:
            return f"BSL credentials contain {shown_key(name)}, only static keys are allowed"
    if text(document, "token_uri") not in _TOKEN_URIS:
        return "BSL credentials name a token_uri that is not Google's"
    return "" if text(document, "private_key") else "BSL credentials have no private_key"
