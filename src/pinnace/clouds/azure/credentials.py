"""Finding the credentials for Azure and getting tokens with them. (docs/spec: STO 14.3)

They are variables. A location that has a credentials file uses the variables of this file alone. Other
locations use the variables of the process, and those of the file that AZURE_CREDENTIALS_FILE names take
precedence. With AZURE_TENANT_ID and AZURE_CLIENT_ID, the first of these that is set is used:

    1. AZURE_CLIENT_SECRET
    2. AZURE_CERTIFICATE_PATH, a PEM file with certificate and RSA key
    3. AZURE_USERNAME and AZURE_PASSWORD
    4. AZURE_FEDERATED_TOKEN_FILE, as AKS puts it into pods (workload identity)

If none is set, the managed identity of the machine is used, where AZURE_CLIENT_ID names one of several; not
if AZURE_IMDS_DISABLED is true. The order is decided here without any network traffic, and explicit
credentials never lead to the metadata service.
"""

import base64
import hashlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import msgspec

from pinnace.aio.blocking import in_thread
from pinnace.clouds.azure.dotenv import parse_variables
from pinnace.clouds.tokens import Token, base64url, signed_jwt, token_of
from pinnace.store_access.errors import StoreConfigError
from pinnace.store_access.requests import RequestPolicy, new_session, send, tls_context

_WHAT = "cannot get an Azure access token"
_METADATA_HOST = "http://169.254.169.254"
_METADATA_SECONDS = 5.0
_LARGEST_FILE_BYTES = 1 << 20
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureCloud:
    """The addresses of one of Azure's clouds."""

    login: str
    resource_manager: str
    storage_suffix: str
    vault_suffix: str


CLOUDS: Mapping[str, AzureCloud] = {
    "AZUREPUBLICCLOUD": AzureCloud(
        login="https://login.microsoftonline.com",
        resource_manager="https://management.azure.com",
        storage_suffix="core.windows.net",
        vault_suffix="vault.azure.net",
    ),
    "AZUREUSGOVERNMENTCLOUD": AzureCloud(
        login="https://login.microsoftonline.us",
        resource_manager="https://management.usgovcloudapi.net",
        storage_suffix="core.usgovcloudapi.net",
        vault_suffix="vault.usgovcloudapi.net",
    ),
    "AZURECHINACLOUD": AzureCloud(
        login="https://login.chinacloudapi.cn",
        resource_manager="https://management.chinacloudapi.cn",
        storage_suffix="core.chinacloudapi.cn",
        vault_suffix="vault.azure.cn",
    ),
}


def cloud_of(variables: Mapping[str, str]) -> AzureCloud:
    """The cloud that AZURE_CLOUD_NAME says, default the public one.

    AZURE_AUTHORITY_HOST and AZURE_RESOURCE_MANAGER_URL name other addresses, as Azure Stack has.

    Raises:
        StoreConfigError: there is no such cloud.
    """
    name = variables.get("AZURE_CLOUD_NAME") or "AzurePublicCloud"
    cloud = CLOUDS.get(name.upper())
    if cloud is None:
        known = "AzurePublicCloud, AzureUSGovernmentCloud, AzureChinaCloud"
        raise StoreConfigError(f"AZURE_CLOUD_NAME {name!r} is no cloud of Azure: use one of {known}")
    if host := variables.get("AZURE_AUTHORITY_HOST"):
        cloud = replace(cloud, login=host.rstrip("/"))
    if url := variables.get("AZURE_RESOURCE_MANAGER_URL"):
        cloud = replace(cloud, resource_manager=url.rstrip("/"))
    return cloud


_OF_THE_PROCESS = (
    "AZURE_AUTHORITY_HOST",
    "AZURE_RESOURCE_MANAGER_URL",
    "AZURE_POD_IDENTITY_AUTHORITY_HOST",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_IMDS_DISABLED",
)
"""Variables that are ignored in a location's own file: a tenant could send the server's secrets elsewhere."""

_FOR_ALL = ("AZURE_AUTHORITY_HOST", "AZURE_RESOURCE_MANAGER_URL", "AZURE_CLOUD_NAME", "AZURE_SUBSCRIPTION_ID")
"""Variables of the process that a location with its own file uses too: addresses and defaults."""


def azure_variables(credentials_file: Path | None, environ: Mapping[str, str]) -> dict[str, str]:
    """All variables that apply to a location.

    The file of the environment may be missing, as the variable is always set in a server's pod.

    Args:
        credentials_file: the location's own. Neither the environment's credentials nor the machine's
            identity are used beside it: a user who may write a location could read with the server's rights.

    Raises:
        StoreConfigError: the file cannot be read.
    """
    if credentials_file is not None:
        own = _variables_of(credentials_file)
        shared = {name: environ[name] for name in _FOR_ALL if name in environ}
        mine = {name: value for name, value in own.items() if name not in _OF_THE_PROCESS}
        return {**shared, **mine, "AZURE_IMDS_DISABLED": "true"}
    named = environ.get("AZURE_CREDENTIALS_FILE", "")
    path = Path(named) if named and Path(named).is_file() else None
    return {**environ, **(_variables_of(path) if path is not None else {})}


def _variables_of(path: Path) -> dict[str, str]:
    return parse_variables(_read(path).decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """An application or user of a tenant, and its proof of identity: the fields of a token request."""

    tenant: str
    proof: Mapping[str, str] = field(repr=False)
    certificate: Path | None = None
    token_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedIdentity:
    """The identity of the machine; `client_id` names one of several."""

    client_id: str
    host: str


AzureOrigin = ClientCredentials | ManagedIdentity


def find_azure_origin(variables: Mapping[str, str]) -> AzureOrigin:
    """Decide where tokens come from. Raises StoreConfigError if there is no source."""
    tenant, client = variables.get("AZURE_TENANT_ID", ""), variables.get("AZURE_CLIENT_ID", "")
    application = {"client_id": client, "grant_type": "client_credentials"}
    if tenant and client:
        if secret := variables.get("AZURE_CLIENT_SECRET"):
            return ClientCredentials(tenant=tenant, proof={**application, "client_secret": secret})
        if certificate := variables.get("AZURE_CERTIFICATE_PATH"):
            return ClientCredentials(tenant=tenant, proof=application, certificate=Path(certificate))
        if (user := variables.get("AZURE_USERNAME")) and (password := variables.get("AZURE_PASSWORD")):
            proof = {"client_id": client, "grant_type": "password", "username": user, "password": password}
            return ClientCredentials(tenant=tenant, proof=proof)
        if token_file := variables.get("AZURE_FEDERATED_TOKEN_FILE"):
            return ClientCredentials(tenant=tenant, proof=application, token_file=Path(token_file))
    if variables.get("AZURE_IMDS_DISABLED", "").lower() == "true":
        raise StoreConfigError(
            "no Azure credentials found: set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET in the "
            "credentials file; the machine's identity is not used where a location has a file of its "
            "own or AZURE_IMDS_DISABLED is set"
        )
    host = variables.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or _METADATA_HOST
    return ManagedIdentity(client_id=client, host=host.rstrip("/"))


async def fetch_azure_token(
    origin: AzureOrigin, *, cloud: AzureCloud, resource: str, policy: RequestPolicy, now: datetime
) -> Token:
    """Ask for a token.

    Args:
        resource: what the token is for, such as the resource manager's URL.

    Raises:
        StorageError: no answer, or a refusal.
    """
    if isinstance(origin, ManagedIdentity):
        return await _ask_machine(origin, resource, policy, now)
    url = f"{cloud.login}/{quote(origin.tenant, safe='')}/oauth2/v2.0/token"
    form = {**origin.proof, "scope": f"{resource}/.default"}
    if origin.certificate is not None:
        assertion = await in_thread(_assertion, origin, url, now)
        form |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": assertion}
    if origin.token_file is not None:
        token = (await in_thread(_read, origin.token_file)).decode("utf-8", "replace").strip()
        form |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": token}
    async with new_session(tls_context()) as session:
        return token_of(await send(session, "POST", url, policy=policy, data=form), _WHAT, now=now)


async def _ask_machine(
    identity: ManagedIdentity, resource: str, policy: RequestPolicy, now: datetime
) -> Token:
    near = msgspec.structs.replace(
        policy, attempts=min(policy.attempts, 2), request_seconds=_METADATA_SECONDS
    )
    url = f"{identity.host}/metadata/identity/oauth2/token?api-version=2018-02-01&resource={quote(resource)}"
    if identity.client_id:
        url += f"&client_id={quote(identity.client_id)}"

    async def headers() -> Mapping[str, str]:
        return {"Metadata": "true"}

    async with new_session(tls_context(), use_proxy=False) as session:
        reply = await send(session, "GET", url, policy=near, headers=headers)
    return token_of(reply, f"{_WHAT} of the machine's identity", now=now)


def _assertion(origin: ClientCredentials, audience: str, now: datetime) -> str:
    """A token that the application signs with the key of its certificate."""
    assert origin.certificate is not None, "asked only then"
    pem = _read(origin.certificate).decode("utf-8", "replace")
    found = _CERTIFICATE.search(pem)
    if found is None:
        raise StoreConfigError(
            f"{origin.certificate.name} of AZURE_CERTIFICATE_PATH holds no certificate in PEM format; "
            "convert a PFX file with: openssl pkcs12 -in FILE -nodes"
        )
    try:
        thumbprint = base64url(hashlib.sha1(base64.b64decode(found[1])).digest())  # noqa: S324 - a name
    except ValueError as error:
        raise StoreConfigError(f"the certificate in {origin.certificate.name} is damaged") from error
    client = origin.proof["client_id"]
    claims = {
        "aud": audience,
        "iss": client,
        "sub": client,
        "jti": str(uuid.uuid4()),
        "nbf": int(now.timestamp()),
        "exp": int((now + timedelta(minutes=10)).timestamp()),
    }
    return signed_jwt(pem, claims, origin.certificate.name, header={"x5t": thumbprint})


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_FILE_BYTES)
    except OSError as error:
        raise StoreConfigError(f"cannot read the credentials file {path.name}: {error.strerror}") from error
