"""Google Cloud KMS: encrypt and decrypt of a symmetric key, by its JSON interface."""

import base64
import json
from collections.abc import Mapping
from typing import Final

from pinnace.clouds.gcp.credentials import fetch_google_token, find_google_origin
from pinnace.kms.access import KMSAccess, Refusals, call
from pinnace.kms.answers import bytes_in, line
from pinnace.kms.uris import KMSKey
from pinnace.store_access.requests import Request

_ENDPOINT: Final = "https://cloudkms.googleapis.com"
_REMEDIES: Final = {
    "PERMISSION_DENIED": "give the account roles/cloudkms.cryptoKeyEncrypter to make backups, or"
    " roles/cloudkms.cryptoKeyDecrypter to read them, and enable the Cloud KMS API",
    "NOT_FOUND": "there is no such key: correct its name and its location",
    "FAILED_PRECONDITION": "the primary version of the key is disabled or destroyed: enable it, or restore it"
    " before its destruction",
    "INVALID_ARGUMENT": "another key has wrapped this, it was changed, or the key is not a symmetric one",
    "UNAUTHENTICATED": "the credentials were refused: correct them",
}
_PASSING: Final = frozenset({"RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "ABORTED"})


async def wrap(access: KMSAccess, key: KMSKey, secret: bytes, what: str) -> bytes:
    """The secret, encrypted. Raises StorageError."""
    answer = await _call(access, key, "encrypt", {"plaintext": base64.b64encode(secret).decode()}, what)
    return bytes_in(answer, "ciphertext", what)


async def unwrap(access: KMSAccess, key: KMSKey, wrapped: bytes, what: str) -> bytes:
    """What was wrapped. Raises StorageError."""
    answer = await _call(access, key, "decrypt", {"ciphertext": base64.b64encode(wrapped).decode()}, what)
    return bytes_in(answer, "plaintext", what)


async def _call(
    access: KMSAccess, key: KMSKey, action: str, fields: Mapping[str, str], what: str
) -> dict[str, object]:
    origin = find_google_origin(access.file_for(key), access.environ)
    token = await fetch_google_token(
        origin,
        environ=access.environ,
        policy=access.policy,
        now=access.clock.now(),
        addresses=access.addresses,
    )

    async def headers() -> Mapping[str, str]:
        return {"authorization": f"Bearer {token.value}", "content-type": "application/json"}

    endpoint = access.endpoints.get(key.service) or _ENDPOINT
    url = f"{endpoint}/v1/{key.name}:{action}"
    request = Request(method="POST", url=url, headers=headers, data=json.dumps(fields).encode(), what=what)
    return await call(access, request, _REFUSALS)


def _code_of(body: bytes) -> tuple[str, str]:
    """`{"error": {"code": 403, "message": ..., "status": "PERMISSION_DENIED"}}`."""
    try:
        error = json.loads(body)["error"]
        return line(error.get("status")), line(error.get("message"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", ""


_REFUSALS: Final = Refusals(_code_of, _REMEDIES, _PASSING)
