"""Azure Key Vault and Managed HSM: wrapkey and unwrapkey of an RSA key.

What is wrapped is `VERSION:bytes`, as only the version of the key that wrapped it unwraps it.
"""

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from pinnace.clouds.azure.credentials import (
    azure_variables,
    cloud_of,
    fetch_azure_token,
    find_azure_origin,
)
from pinnace.clouds.tokens import base64url
from pinnace.kms.access import KMSAccess, Refusals, call
from pinnace.kms.answers import bytes_in, line, text_in
from pinnace.kms.errors import InvalidKMSKey, KMSRefused
from pinnace.kms.uris import KMSKey
from pinnace.store_access.requests import Request

_ALGORITHM: Final = "RSA-OAEP-256"
_API: Final = "api-version=7.4"
_VERSION_CHARACTERS: Final = 32
_HSM: Final = {"vault.azure.net": "managedhsm.azure.net"}
"""Managed HSMs have another domain, in the public cloud alone."""
_REMEDIES: Final = {
    "Forbidden": "give the account the role Key Vault Crypto Service Encryption User (wrapKey and get to make"
    " backups, unwrapKey to read them), and let the vault's firewall admit it",
    "KeyNotFound": "there is no such key in this vault: correct its name",
    "KeyDisabled": "enable the key",
    "BadParameter": "another key has wrapped this, it was changed, or the key is not an RSA key",
    "Unauthorized": "the credentials were refused: correct them",
}
_PASSING: Final = frozenset({"Throttled", "TooManyRequests", "InternalError"})


async def wrap(access: KMSAccess, key: KMSKey, secret: bytes, what: str) -> bytes:
    """The secret, encrypted. Raises StorageError."""
    service = await _Vault.of(access, key, what)
    version = key.parts["version"] or await service.newest_version()
    answer = await service.call("wrapkey", version, secret)
    return version.encode() + b":" + bytes_in(answer, "value", what, url_safe=True)


async def unwrap(access: KMSAccess, key: KMSKey, wrapped: bytes, what: str) -> bytes:
    """What was wrapped. Raises StorageError."""
    version, _, value = wrapped.partition(b":")
    if not _is_version(version.decode("latin-1")) or not value:
        raise KMSRefused(f"{what}: what was wrapped does not begin with the version of a key")
    service = await _Vault.of(access, key, what)
    return bytes_in(await service.call("unwrapkey", version.decode(), value), "value", what, url_safe=True)


def _is_version(text: str) -> bool:
    return len(text) == _VERSION_CHARACTERS and all(each in "0123456789abcdef" for each in text)


class _Vault:
    """One vault, and a token for it."""

    def __init__(self, access: KMSAccess, url: str, token: str, what: str) -> None:
        self._access = access
        self._url = url
        self._token = token
        self._what = what

    @classmethod
    async def of(cls, access: KMSAccess, key: KMSKey, what: str) -> "_Vault":
        variables = azure_variables(access.file_for(key), access.environ)
        cloud = cloud_of(variables)
        suffix = key.parts["suffix"] or cloud.vault_suffix
        if suffix not in (cloud.vault_suffix, _HSM.get(cloud.vault_suffix)):
            # The token would be sent to whoever has this host.
            raise InvalidKMSKey(f"{key.uri}: {suffix} is not where the vaults of this cloud are")
        token = await fetch_azure_token(
            find_azure_origin(variables),
            cloud=cloud,
            resource=f"https://{suffix}",
            policy=access.policy,
            now=access.clock.now(),
        )
        origin = access.endpoints.get(key.service) or f"https://{key.parts['vault']}.{suffix}"
        return cls(access, f"{origin}/keys/{key.parts['key']}", token.value, what)

    async def newest_version(self) -> str:
        """The version of the key that wraps now."""
        found = (await self._send("GET", f"{self._url}?{_API}", None)).get("key")
        kid = text_in(found if isinstance(found, dict) else {}, "kid", self._what)
        version = urlsplit(kid).path.rpartition("/")[2]
        if not _is_version(version):
            raise KMSRefused(f"{self._what}: the answer does not name the version of the key")
        return version

    async def call(self, action: str, version: str, value: bytes) -> dict[str, object]:
        body = json.dumps({"alg": _ALGORITHM, "value": base64url(value)}).encode()
        return await self._send("POST", f"{self._url}/{version}/{action}?{_API}", body)

    async def _send(self, method: str, url: str, body: bytes | None) -> dict[str, object]:
        async def headers() -> Mapping[str, str]:
            return {"authorization": f"Bearer {self._token}", "content-type": "application/json"}

        request = Request(method=method, url=url, headers=headers, data=body, what=self._what)
        return await call(self._access, request, _REFUSALS)


def _code_of(body: bytes) -> tuple[str, str]:
    """`{"error": {"code": "Forbidden", "message": ..., "innererror": {"code": "KeyDisabled"}}}`."""
    try:
        error = json.loads(body)["error"]
        inner = error.get("innererror")
        code = line(inner.get("code")) if isinstance(inner, dict) else ""
        return (code if code in _REMEDIES else line(error.get("code"))), line(error.get("message"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", ""


_REFUSALS: Final = Refusals(_code_of, _REMEDIES, _PASSING)
