"""Finding the credentials for Google Cloud, in the order of Google's tools, and getting tokens with them.

    1. the location's own credentials file, and nothing else if it is given
    2. the file that GOOGLE_APPLICATION_CREDENTIALS names
    3. what `gcloud auth application-default login` wrote (in CLOUDSDK_CONFIG, else ~/.config/gcloud)
    4. the metadata server of the machine or of GKE (workload identity), unless NO_GCE_CHECK is true

A file of another type than a service account's key or a user's login, such as workload identity federation
(`external_account`), is read by google-auth; a tenant's location may not have one, as it can name programs
and files of the server. The order is decided here without any network traffic; a token is asked for when the
first request needs it.
Explicit credentials never lead to the metadata server. (docs/spec: STO 14.2)
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from pinnace.aio.blocking import in_thread
from pinnace.aio.small_files import read_small_file
from pinnace.clouds.tokens import Token, signed_jwt, token_of
from pinnace.store_access.addresses import Addresses
from pinnace.store_access.errors import StorageError, StoreConfigError, StoreUnavailable
from pinnace.store_access.json import json_object
from pinnace.store_access.requests import Reply, RequestPolicy, new_session, send, tls_context

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""The scope of tokens; the roles of the account decide what they may do."""

_METADATA_HOST = "169.254.169.254"
_METADATA_HEADERS = {"Metadata-Flavor": "Google"}
_METADATA_SECONDS = 5.0
_TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_WHAT = "cannot get a Google access token"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    """A key file of a service account."""

    email: str
    private_key: str = field(repr=False)
    token_uri: str = _TOKEN_URI
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedUser:
    """The login of a user, as gcloud stores it."""

    client_id: str
    client_secret: str = field(repr=False)
    refresh_token: str = field(repr=False)
    project: str = ""


@dataclass(frozen=True, slots=True)
class MetadataServer:
    """The service that knows the account of a machine or a pod."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryAccount:
    """A credentials file of a type that google-auth understands; see its documentation of each type."""

    kind: str
    info: Mapping[str, Any] = field(repr=False)
    project: str = ""


_LIBRARY_KINDS = ("external_account", "external_account_authorized_user", "impersonated_service_account")

GoogleOrigin = ServiceAccount | AuthorizedUser | LibraryAccount | MetadataServer


def find_google_origin(credentials_file: Path | None, environ: Mapping[str, str]) -> GoogleOrigin:
    """Decide where tokens come from; reads at most the credentials file.

    Raises:
        StoreConfigError: the file cannot be used, or there is no source at all.
    """
    if credentials_file is not None:
        return _from_file(credentials_file)
    # The variable alone proves nothing: it is always set in a server's pod, also where a role takes the place
    # of the file.
    for path in _default_files(environ):
        if path.is_file():
            return _from_file(path)
    if environ.get("NO_GCE_CHECK", "").lower() == "true":
        raise StoreConfigError("no Google credentials found: no credentials file, and NO_GCE_CHECK is set")
    return MetadataServer(f"http://{environ.get('GCE_METADATA_HOST') or _METADATA_HOST}/computeMetadata/v1")


def _default_files(environ: Mapping[str, str]) -> list[Path]:
    found = []
    if named := environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        found.append(Path(os.path.expanduser(named)))
    if folder := environ.get("CLOUDSDK_CONFIG"):
        found.append(Path(folder, "application_default_credentials.json"))
    elif home := environ.get("HOME"):
        found.append(Path(home, ".config", "gcloud", "application_default_credentials.json"))
    return found


def _from_file(path: Path) -> ServiceAccount | AuthorizedUser | LibraryAccount:
    try:
        values = json_object(read_small_file(path), "the Google credentials file")
    except OSError as error:
        raise StoreConfigError(f"cannot read the Google credentials file: {error.strerror}") from error
    except StorageError:
        raise StoreConfigError("the Google credentials file is not a JSON key file") from None

    def text(name: str) -> str:
        value = values.get(name)
        return value if isinstance(value, str) else ""

    def wanted(name: str) -> str:
        if not text(name):
            raise StoreConfigError(f"the Google credentials file lacks {name}")
        return text(name)

    kind = text("type")
    if kind == "service_account":
        return ServiceAccount(
            email=wanted("client_email"),
            private_key=wanted("private_key"),
            token_uri=text("token_uri") or _TOKEN_URI,
            project=text("project_id"),
        )
    if kind == "authorized_user":
        return AuthorizedUser(
            client_id=wanted("client_id"),
            client_secret=wanted("client_secret"),
            refresh_token=wanted("refresh_token"),
            project=text("quota_project_id"),
        )
    if kind in _LIBRARY_KINDS:
        return LibraryAccount(kind=kind, info=values, project=text("quota_project_id"))
    raise StoreConfigError(
        f"the Google credentials file is of type {kind!r}: use a key of a service account, what gcloud wrote "
        "for a user, or workload identity federation; a machine or pod with a service account needs no file"
    )


async def fetch_google_token(
    origin: GoogleOrigin,
    *,
    environ: Mapping[str, str],
    policy: RequestPolicy,
    now: datetime,
    addresses: Addresses | None = None,
) -> Token:
    """Ask for a token, at the address that the credentials name. Raises StorageError."""
    if isinstance(origin, MetadataServer):
        url = f"{origin.url}/instance/service-accounts/default/token"
        return token_of(await _ask_metadata(url, policy), f"{_WHAT} of the machine's account", now=now)
    if isinstance(origin, LibraryAccount):
        if addresses is not None:
            raise StoreConfigError(
                f"Google credentials of type {origin.kind!r} are for the administrator's locations only: "
                "use a key of a service account"
            )
        return await in_thread(_library_token, origin)
    if isinstance(origin, ServiceAccount):
        claims = {
            "iss": origin.email,
            "scope": SCOPE,
            "aud": origin.token_uri,
            "iat": int(now.timestamp()),
            "exp": int((now + timedelta(hours=1)).timestamp()),
        }
        url = origin.token_uri
        form = {"grant_type": _JWT_GRANT, "assertion": signed_jwt(origin.private_key, claims, origin.email)}
    else:
        url = environ.get("CLOUDSDK_AUTH_TOKEN_HOST") or _TOKEN_URI
        form = {
            "grant_type": "refresh_token",
            "client_id": origin.client_id,
            "client_secret": origin.client_secret,
            "refresh_token": origin.refresh_token,
        }
    async with new_session(tls_context(), addresses=addresses) as session:
        reply = await send(session, "POST", url, policy=policy, data=form)
    return token_of(reply, _WHAT, now=now)


def _library_token(origin: LibraryAccount) -> Token:
    """A token by google-auth, which blocks. Raises StorageError."""
    # Loaded here: few locations need it, and it takes long to import.
    import urllib3
    from google.auth import exceptions
    from google.auth.transport.urllib3 import Request

    try:
        credentials = _library_credentials(origin)
        with urllib3.PoolManager(timeout=urllib3.Timeout(30)) as pool:
            credentials.refresh(Request(pool))
    except exceptions.TransportError as error:
        raise StoreUnavailable(f"{_WHAT}: {_one_line(error)}") from error
    except exceptions.RefreshError as error:
        kind = StoreUnavailable if error.retryable else StorageError
        raise kind(f"{_WHAT}: {_one_line(error)}") from error
    except (exceptions.GoogleAuthError, ValueError) as error:
        raise StoreConfigError(f"{_WHAT}: {_one_line(error)}") from error
    # The library's times are in UTC, without saying so.
    return Token(value=credentials.token, expires_at=credentials.expiry.replace(tzinfo=UTC))


def _library_credentials(origin: LibraryAccount) -> Any:
    """The credentials of google-auth for a file; each type by its own class, as the library advises."""
    from google.auth import (
        aws,
        external_account_authorized_user,
        identity_pool,
        impersonated_credentials,
        pluggable,
    )

    info = dict(origin.info)
    if origin.kind == "impersonated_service_account":
        return impersonated_credentials.Credentials.from_impersonated_service_account_info(
            info, scopes=[SCOPE]
        )
    if origin.kind == "external_account_authorized_user":
        return external_account_authorized_user.Credentials.from_info(info, scopes=[SCOPE])
    source = info.get("credential_source")
    if isinstance(source, dict) and "executable" in source:
        return pluggable.Credentials.from_info(info, scopes=[SCOPE])
    if isinstance(source, dict) and str(source.get("environment_id", "")).startswith("aws"):
        return aws.Credentials.from_info(info, scopes=[SCOPE])
    return identity_pool.Credentials.from_info(info, scopes=[SCOPE])


def _one_line(error: Exception) -> str:
    return " ".join(str(error.args[0] if error.args else error).split())[:300]


async def find_google_project(
    origin: GoogleOrigin, *, environ: Mapping[str, str], policy: RequestPolicy
) -> str:
    """The project of the credentials. Raises StorageError."""
    if isinstance(origin, MetadataServer):
        reply = await _ask_metadata(f"{origin.url}/project/project-id", policy)
        project = reply.body.decode("utf-8", "replace").strip() if reply.status == 200 else ""
    else:
        project = origin.project or environ.get("GOOGLE_CLOUD_PROJECT", "")
    if not project:
        raise StoreConfigError("the Google credentials do not name their project")
    return project


async def _ask_metadata(url: str, policy: RequestPolicy) -> Reply:
    near = msgspec.structs.replace(
        policy, attempts=min(policy.attempts, 2), request_seconds=_METADATA_SECONDS
    )

    async def headers() -> Mapping[str, str]:
        return _METADATA_HEADERS

    async with new_session(tls_context(), use_proxy=False) as session:
        return await send(session, "GET", url, policy=near, headers=headers)
