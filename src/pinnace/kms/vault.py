"""HashiCorp Vault and OpenBao: encrypt and decrypt of the transit engine.

Address and token are the process's, by the variables of Vault's own program: VAULT_ADDR, VAULT_TOKEN,
VAULT_NAMESPACE, VAULT_CACERT. Without a token, the role VAULT_KUBERNETES_ROLE is taken by the token of the
pod's account. The transit engine is at `transit`, or where TRANSIT_SECRET_ENGINE_PATH says, as cosign has it.
"""

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pinnace.aio.small_files import read_small_file
from pinnace.kms.access import KMSAccess, Refusals, call
from pinnace.kms.answers import bytes_in, line, text_in
from pinnace.kms.errors import InvalidKMSKey, KMSRefused
from pinnace.kms.uris import KMSKey
from pinnace.store_access.requests import Request

ADDRESS: Final = "VAULT_ADDR"
TOKEN: Final = "VAULT_TOKEN"  # noqa: S105 - a name
NAMESPACE: Final = "VAULT_NAMESPACE"
CA_FILE: Final = "VAULT_CACERT"
ROLE: Final = "VAULT_KUBERNETES_ROLE"
LOGIN_MOUNT: Final = "VAULT_KUBERNETES_MOUNT"
ACCOUNT_TOKEN_FILE: Final = "VAULT_KUBERNETES_TOKEN_FILE"  # noqa: S105 - a name
TRANSIT_MOUNT: Final = "TRANSIT_SECRET_ENGINE_PATH"

_ACCOUNT_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
_WRAPPED: Final = re.compile(rb"vault:v[0-9]{1,9}:[A-Za-z0-9+/=]{1,4096}")
_MOUNT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")
_REMEDIES: Final = {
    "403": "give the token `update` on transit/encrypt/KEY to make backups, or on transit/decrypt/KEY to read"
    " them",
    "404": f"there is no transit engine at this path: enable it, or set {TRANSIT_MOUNT}",
    "400": "there is no such key, another key has wrapped this, or it was changed",
}


async def wrap(access: KMSAccess, key: KMSKey, secret: bytes, what: str) -> bytes:
    """The secret, encrypted. Raises StorageError."""
    answer = await _call(access, key, "encrypt", {"plaintext": base64.b64encode(secret).decode()}, what)
    wrapped = text_in(answer, "ciphertext", what).encode()
    if not _WRAPPED.fullmatch(wrapped):
        raise KMSRefused(f"{what}: the answer is not of the transit engine")
    return wrapped


async def unwrap(access: KMSAccess, key: KMSKey, wrapped: bytes, what: str) -> bytes:
    """What was wrapped. Raises StorageError."""
    if not _WRAPPED.fullmatch(wrapped):
        raise KMSRefused(f"{what}: what was wrapped is not of Vault's transit engine")
    answer = await _call(access, key, "decrypt", {"ciphertext": wrapped.decode()}, what)
    return bytes_in(answer, "plaintext", what)


async def _call(
    access: KMSAccess, key: KMSKey, action: str, fields: Mapping[str, str], what: str
) -> dict[str, object]:
    access.file_for(key)  # never for a tenant
    token = access.environ.get(TOKEN, "").strip() or await _login(access, what)
    path = f"{_mount(access, TRANSIT_MOUNT, 'transit')}/{action}/{key.parts['key']}"
    return await _send(access, path, fields, token, what, "data")


async def _login(access: KMSAccess, what: str) -> str:
    """A token for the role of the pod's account."""
    role = access.environ.get(ROLE, "")
    if not role:
        raise InvalidKMSKey(f"{what}: set {TOKEN}, or {ROLE} to sign in with the account of the pod")
    file = Path(access.environ.get(ACCOUNT_TOKEN_FILE) or _ACCOUNT_TOKEN)
    try:
        account = read_small_file(file).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no token"
        raise InvalidKMSKey(f"{what}: cannot read the token of the pod's account {file}: {reason}") from error
    path = f"auth/{_mount(access, LOGIN_MOUNT, 'kubernetes')}/login"
    signed_in = await _send(access, path, {"role": role, "jwt": account}, "", what, "auth")
    return text_in(signed_in, "client_token", what)


def _mount(access: KMSAccess, variable: str, default: str) -> str:
    mount = access.environ.get(variable, "").strip("/") or default
    if not _MOUNT.fullmatch(mount):
        raise InvalidKMSKey(f"{variable} is not the path of an engine of Vault")
    return mount


async def _send(
    access: KMSAccess, path: str, fields: Mapping[str, str], token: str, what: str, member: str
) -> dict[str, object]:
    address = access.endpoints.get("hashivault") or access.environ.get(ADDRESS, "")
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
        raise InvalidKMSKey(f"{what}: set {ADDRESS} to the URL of Vault")
    sent = {"content-type": "application/json", "x-vault-request": "true"}
    if token:
        sent["x-vault-token"] = token
    if namespace := access.environ.get(NAMESPACE):
        sent["x-vault-namespace"] = namespace

    async def headers() -> Mapping[str, str]:
        return sent

    trusted = ""
    if ca_file := access.environ.get(CA_FILE):
        try:
            trusted = read_small_file(Path(ca_file)).decode("utf-8", "replace")
        except OSError as error:
            raise InvalidKMSKey(f"{what}: cannot read {CA_FILE} {ca_file}: {error.strerror}") from error
    request = Request(
        method="POST",
        url=f"{address.rstrip('/')}/v1/{path}",
        headers=headers,
        data=json.dumps(fields).encode(),
        what=what,
    )
    answer = (await call(access, request, _REFUSALS, tls=trusted)).get(member)
    if not isinstance(answer, dict):
        raise KMSRefused(f"{what}: the answer has no {member}")
    return answer


def _code_of(body: bytes) -> tuple[str, str]:
    """`{"errors": ["permission denied"]}`; the status is the only code."""
    try:
        return "", line("; ".join(json.loads(body)["errors"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return "", ""


_REFUSALS: Final = Refusals(_code_of, _REMEDIES)
