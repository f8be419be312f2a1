"""Finding the credentials for S3, in the order of AWS's tools.

    1. the location's own credentials file, and nothing else if it is given
    2. the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) unless a profile is named
    3. the shared credentials file (AWS_SHARED_CREDENTIALS_FILE, else ~/.aws/credentials)
    4. a web identity token, as EKS puts it into pods (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN)
    5. a container's credentials endpoint (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI)
    6. the instance metadata service, unless AWS_EC2_METADATA_DISABLED is true

The order is decided here without any network traffic; only a source of kinds 4 to 6 asks anybody, when the
first request is signed. Explicit credentials never lead to a metadata service. (docs/spec: STO 14.1)
"""

import configparser
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from pinnace.api.values.times import utcnow
from pinnace.http.errors import StoreConfigError

REFRESH_BEFORE = timedelta(minutes=5)
"""Temporary credentials are renewed this long before they end, so that no upload outlives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a request is signed with. The secrets are kept out of the representation."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


Source = Callable[[], Awaitable[Credentials]]
"""Gets credentials, possibly over the network; raises StorageError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebIdentity:
    """Source 4: a token file and the role it may assume."""

    token_file: Path
    role_arn: str
    session_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEndpoint:
    """Source 5: a URL that returns credentials, and what to authorize with there."""

    url: str
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None


@dataclass(frozen=True, slots=True)
class InstanceMetadata:
    """Source 6: the metadata service of the machine."""

    endpoint: str


Origin = Credentials | WebIdentity | ContainerEndpoint | InstanceMetadata

_CONTAINER_HOST = "http://169.254.170.2"
_METADATA_HOST = "http://169.254.169.254"


def find_origin(
    environ: Mapping[str, str], *, profile: str = "", credentials_file: Path | None = None
) -> Origin:
    """Decide where credentials come from; reads at most the credentials file.

    Args:
        profile: the one that is configured, if any.
        credentials_file: of the location itself.

    Raises:
        StoreConfigError: a named file or profile has none, or there is no source at all.
    """
    configured, profile = profile, profile or environ.get("AWS_PROFILE") or "default"
    if credentials_file is not None:
        return _from_file(credentials_file, profile)
    if not configured and (found := _from_environment(environ)) is not None:
        return found
    # A profile that somebody chose must exist. The variable alone proves nothing: it is always set in a
    # server's pod, also where a role takes the place of the file.
    chosen = bool(configured or environ.get("AWS_PROFILE"))
    path = _shared_file(environ)
    if path is not None and (chosen or _parse(path).has_section(profile)):
        return _from_file(path, profile)
    if chosen:
        raise StoreConfigError(f"no AWS credentials found: no credentials file for profile {profile!r}")
    return _from_platform(environ)


def _from_environment(environ: Mapping[str, str]) -> Credentials | None:
    key_id = environ.get("AWS_ACCESS_KEY_ID")
    secret = environ.get("AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        return None
    token = environ.get("AWS_SESSION_TOKEN") or None
    return Credentials(access_key_id=key_id, secret_access_key=secret, session_token=token)


def _from_platform(environ: Mapping[str, str]) -> Origin:
    token_file, role_arn = environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"), environ.get("AWS_ROLE_ARN")
    if token_file and role_arn:
        session_name = environ.get("AWS_ROLE_SESSION_NAME") or "pinnace"
        return WebIdentity(token_file=Path(token_file), role_arn=role_arn, session_name=session_name)
    full_url = environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if relative_uri := environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        full_url = _CONTAINER_HOST + relative_uri
    if full_url:
        container_token_file = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        return ContainerEndpoint(
            url=full_url,
            token=environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            token_file=Path(container_token_file) if container_token_file else None,
        )
    if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true":
        return InstanceMetadata(environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA_HOST)
    raise StoreConfigError("no AWS credentials found: no credentials file, environment variables or role")


def _shared_file(environ: Mapping[str, str]) -> Path | None:
    """The shared credentials file if it exists."""
    if named := environ.get("AWS_SHARED_CREDENTIALS_FILE"):
        path = Path(named).expanduser()
    elif home := environ.get("HOME"):
        path = Path(home, ".aws", "credentials")
    else:
        return None
    return path if path.is_file() else None


def _parse(path: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(default_section="", strict=False, allow_no_value=True)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreConfigError(f"cannot read the AWS credentials file: {error.strerror}") from error
    except (configparser.Error, UnicodeDecodeError):
        # The parser's own text quotes the line at fault, which may be a secret.
        raise StoreConfigError("the AWS credentials file is not in INI format") from None
    return parser


def _from_file(path: Path, profile: str) -> Credentials:
    parser = _parse(path)
    if not parser.has_section(profile):
        raise StoreConfigError(f"no AWS credentials found: the credentials file has no profile {profile!r}")
    values = {key: (value or "").strip() for key, value in parser.items(profile)}
    key_id, secret = values.get("aws_access_key_id"), values.get("aws_secret_access_key")
    if not key_id or not secret:
        raise StoreConfigError(
            f"no AWS credentials found: profile {profile!r} lacks aws_access_key_id or aws_secret_access_key"
        )
    return Credentials(
        access_key_id=key_id,
        secret_access_key=secret,
        session_token=values.get("aws_session_token") or values.get("aws_security_token") or None,
    )


class CachedCredentials:
    """Credentials from a source, asked again only when the last answer is about to end."""

    def __init__(self, source: Source, *, clock: Callable[[], datetime] = utcnow) -> None:
        """Args: source: where they come from. clock: for tests."""
        self._source = source
        self._clock = clock
        self._current: Credentials | None = None

    async def get(self) -> Credentials:
        """The credentials to sign with now."""
        current = self._current
        expires_at = current.expires_at if current is not None else None
        if current is None or (expires_at is not None and expires_at - self._clock() < REFRESH_BEFORE):
            current = self._current = await self._source()
        return current
