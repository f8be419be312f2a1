"""Checks that a tenant's credentials contain only keys. Pure. (docs/spec: NAC 17 A17)

The files of cloud tools can also name programs to run, files to read, roles to assume and metadata services
to ask, all with the rights of the server's pod. So only known options pass; no value is shown.
"""

import base64
import binascii
from typing import Final

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.storage.providers import PROVIDERS, qualified_provider

MAX_BYTES: Final = 64 * 1024
MAX_SECRET_CHARACTERS: Final = 128 * 1024


def credentials_problem(provider: str, secret: JSONObject, key: str) -> str:
    """Why the credentials are refused; empty if they are valid.

    Args:
        provider: its short name.
        secret: the Secret as the API server has it.
        key: the key of the Secret's data that holds the credentials.
    """
    if sum(len(str(value)) for value in mapping(secret, "data").values()) > MAX_SECRET_CHARACTERS:
        # It is copied for each location that names it, and no quota of the tenant counts the copies.
        return f"BSL credentials secret holds more than {MAX_SECRET_CHARACTERS} characters"
    encoded = mapping(secret, "data").get(key)
    if encoded is None:
        return f"BSL credentials secret has no key {key}"
    try:
        content = base64.b64decode(text({"value": encoded}, "value"), validate=True)
        if len(content) > MAX_BYTES:
            return f"BSL credentials are longer than {MAX_BYTES} bytes"
        given = content.decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "BSL credentials are not UTF-8 text in base64"
    known = PROVIDERS.get(qualified_provider(provider))
    return known.tenants.credentials_problem(given) if known is not None and known.tenants else ""
