"""Finding the credentials for S3, in the order of AWS's tools.

    1. the location's own credentials file, and nothing else if it is given
    2. the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) unless a profile is named
    3. all else that AWS's tools know: see chain.py

A location's own file is read here and only for keys, unless its configuration has `enableSharedConfig`, which
no tenant's may have: profiles of AWS's tools can run programs and ask metadata services with the server's
rights. (docs/spec: STO 14.1)
"""

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pinnace.clouds.aws.chain import CredentialChain
from pinnace.clouds.aws.credentials import AccessKey, CredentialSource, FixedCredentials
from pinnace.store_access.errors import StoreConfigError

_SHARED: Final = '; its role is taken with enableSharedConfig: "true" in the config of the location'


def find_credentials(
    environ: Mapping[str, str],
    *,
    profile: str = "",
    credentials_file: Path | None = None,
    region: str = "",
    shared_config: bool = False,
) -> CredentialSource:
    """Decide where credentials come from; reads at most the location's own credentials file.

    Args:
        profile: the one that is configured, if any.
        credentials_file: of the location itself.
        region: of the STS service to ask, if one is asked.
        shared_config: whether the location's own file may name roles, as AWS's config file may.

    Raises:
        StoreConfigError: the location's own file, or the profile in it, has none.
    """
    if credentials_file is not None:
        named = profile or environ.get("AWS_PROFILE") or "default"
        if shared_config and not _has_keys(credentials_file, named):
            return CredentialChain(named, region, file=credentials_file)
        return FixedCredentials(_from_file(credentials_file, named))
    if not profile and (found := _from_environment(environ)) is not None:
        return FixedCredentials(found)
    return CredentialChain(profile, region)


def _from_environment(environ: Mapping[str, str]) -> AccessKey | None:
    key_id = environ.get("AWS_ACCESS_KEY_ID")
    secret = environ.get("AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        return None
    token = environ.get("AWS_SESSION_TOKEN") or None
    return AccessKey(access_key_id=key_id, secret_access_key=secret, session_token=token)


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


def _has_keys(path: Path, profile: str) -> bool:
    """Whether the profile has keys and no role that they are for."""
    parser = _parse(path)
    return parser.has_option(profile, "aws_access_key_id") and not parser.has_option(profile, "role_arn")


def _from_file(path: Path, profile: str) -> AccessKey:
    parser = _parse(path)
    if not parser.has_section(profile):
        raise StoreConfigError(f"no AWS credentials found: the credentials file has no profile {profile!r}")
    values = {key: (value or "").strip() for key, value in parser.items(profile)}
    key_id, secret = values.get("aws_access_key_id"), values.get("aws_secret_access_key")
    if not key_id or not secret:
        raise StoreConfigError(
            f"no AWS credentials found: profile {profile!r} lacks aws_access_key_id or aws_secret_access_key"
            f"{_SHARED if values.get('role_arn') else ''}"
        )
    return AccessKey(
        access_key_id=key_id,
        secret_access_key=secret,
        session_token=values.get("aws_session_token") or values.get("aws_security_token") or None,
    )
