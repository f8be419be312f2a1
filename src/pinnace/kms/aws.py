"""AWS KMS: Encrypt and Decrypt of its JSON interface, signed as requests to S3 are."""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Final

from pinnace.clouds.aws.finding import find_credentials
from pinnace.clouds.aws.signing import Signer, signed_headers
from pinnace.kms.access import KMSAccess, Refusals, call
from pinnace.kms.answers import bytes_in, line
from pinnace.kms.uris import KMSKey
from pinnace.store_access.requests import Request

ENDPOINT_VARIABLE: Final = "AWS_ENDPOINT_URL_KMS"
"""As AWS's own programs have it."""

_CREDENTIALS: Final = "the credentials are not those of an account of AWS, or have expired: correct them"
_REMEDIES: Final = {
    "AccessDeniedException": "give the account kms:Encrypt to make backups, or kms:Decrypt to read them, in"
    " its policy and in that of the key",
    "NotFoundException": "there is no such key in this region: correct its ARN",
    "DisabledException": "enable the key",
    "KMSInvalidStateException": "the key is about to be deleted or is not ready: cancel its deletion",
    "InvalidKeyUsageException": "the key must be a symmetric one for encryption",
    "IncorrectKeyException": "another key has wrapped this",
    "InvalidCiphertextException": "another key has wrapped this, or it was changed",
    "UnrecognizedClientException": _CREDENTIALS,
    "InvalidSignatureException": _CREDENTIALS,
    "InvalidClientTokenId": _CREDENTIALS,
    "ExpiredTokenException": _CREDENTIALS,
}
_PASSING: Final = frozenset(
    {
        "ThrottlingException",
        "LimitExceededException",
        "KMSInternalException",
        "DependencyTimeoutException",
        "KeyUnavailableException",
    }
)


async def wrap(access: KMSAccess, key: KMSKey, secret: bytes, what: str) -> bytes:
    """The secret, encrypted. Raises StorageError."""
    answer = await _call(access, key, "Encrypt", {"Plaintext": _text(secret)}, what)
    return bytes_in(answer, "CiphertextBlob", what)


async def unwrap(access: KMSAccess, key: KMSKey, wrapped: bytes, what: str) -> bytes:
    """What was wrapped. Raises StorageError."""
    answer = await _call(access, key, "Decrypt", {"CiphertextBlob": _text(wrapped)}, what)
    return bytes_in(answer, "Plaintext", what)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def _call(
    access: KMSAccess, key: KMSKey, action: str, fields: Mapping[str, str], what: str
) -> dict[str, object]:
    region = key.parts["region"]
    suffix = ".cn" if key.parts["partition"] == "aws-cn" else ""
    own = f"https://kms.{region}.amazonaws.com{suffix}"
    endpoint = access.endpoints.get(key.service) or access.environ.get(ENDPOINT_VARIABLE) or own
    url = f"{endpoint.rstrip('/')}/"
    body = json.dumps({"KeyId": key.name, **fields}).encode()
    source = find_credentials(
        access.environ, profile=access.profile, credentials_file=access.file_for(key), region=region
    )

    async def headers() -> Mapping[str, str]:
        return signed_headers(
            "POST",
            url,
            Signer(region=region, credentials=await source.get(), service="kms"),
            now=access.clock.now(),
            body_hash=hashlib.sha256(body).hexdigest(),
            headers={"content-type": "application/x-amz-json-1.1", "x-amz-target": f"TrentService.{action}"},
        )

    request = Request(method="POST", url=url, headers=headers, data=body, what=what)
    return await call(access, request, _REFUSALS)


def _code_of(body: bytes) -> tuple[str, str]:
    """`{"__type": "prefix#Code", "message": ...}`; some services write `Message`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return "", ""
    if not isinstance(value, dict):
        return "", ""
    code = line(value.get("__type")).rpartition("#")[2]
    return code, line(value.get("message") or value.get("Message"))


_REFUSALS: Final = Refusals(_code_of, _REMEDIES, _PASSING)
