"""Credentials that somebody must be asked for: STS, a container's endpoint, the instance metadata service."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import aiohttp

from pinnace.aio.blocking import in_thread
from pinnace.clouds.aws.credentials import (
    ContainerEndpoint,
    Credentials,
    InstanceMetadata,
    Origin,
    WebIdentity,
)
from pinnace.http.errors import StorageError, StoreConfigError
from pinnace.http.requests import (
    Reply,
    RetryPolicy,
    error_for,
    local_name,
    new_session,
    parse_xml,
    send,
    tls_context,
)

_METADATA_SECONDS = 5.0
"""Metadata services are near; where there is none, the connection just hangs."""


async def fetch_credentials(
    origin: Origin, *, region: str, environ: Mapping[str, str], policy: RetryPolicy
) -> Credentials:
    """Get credentials from where they were found to be.

    Args:
        region: of the STS service to ask; empty is its global endpoint.

    Raises:
        StorageError: nobody answered, or the answer was a refusal.
    """
    if isinstance(origin, Credentials):
        return origin
    near = replace(policy, attempts=min(policy.attempts, 2), request_seconds=_METADATA_SECONDS)
    if isinstance(origin, WebIdentity):
        endpoint = environ.get("AWS_ENDPOINT_URL_STS") or _sts_endpoint(region)
        async with new_session(tls_context()) as session:
            return await _assume_role(session, origin, endpoint, policy)
    async with new_session(tls_context(), use_proxy=False) as session:
        if isinstance(origin, ContainerEndpoint):
            return await _ask_container(session, origin, near)
        return await _ask_instance(session, origin, near)


def _sts_endpoint(region: str) -> str:
    if not region:
        return "https://sts.amazonaws.com"
    return f"https://sts.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


async def _assume_role(
    session: aiohttp.ClientSession, identity: WebIdentity, endpoint: str, policy: RetryPolicy
) -> Credentials:
    what = "cannot get AWS credentials for the web identity"
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": identity.role_arn,
        "RoleSessionName": identity.session_name,
        "WebIdentityToken": await _read_token(identity.token_file),
    }
    reply = await send(session, "POST", f"{endpoint}/", policy=policy, data=form)
    if reply.status != 200:
        raise error_for(what, reply.status, reply.body)
    texts = {local_name(element): element.text or "" for element in parse_xml(reply.body, what).iter()}
    return _credentials({**texts, "Token": texts.get("SessionToken", "")}, what)


async def _ask_container(
    session: aiohttp.ClientSession, endpoint: ContainerEndpoint, policy: RetryPolicy
) -> Credentials:
    token = endpoint.token if endpoint.token_file is None else await _read_token(endpoint.token_file)

    async def headers() -> dict[str, str]:
        return {"Authorization": token} if token else {}

    what = "cannot get AWS credentials of the container"
    return _from_json(await send(session, "GET", endpoint.url, policy=policy, headers=headers), what)


async def _ask_instance(
    session: aiohttp.ClientSession, service: InstanceMetadata, policy: RetryPolicy
) -> Credentials:
    what = "cannot get AWS credentials of the instance"
    base = f"{service.endpoint.rstrip('/')}/latest"

    async def token_headers() -> dict[str, str]:
        return {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}

    token = await send(session, "PUT", f"{base}/api/token", policy=policy, headers=token_headers)
    if token.status != 200:
        raise error_for(what, token.status, token.body)

    async def headers() -> dict[str, str]:
        return {"X-aws-ec2-metadata-token": token.body.decode("latin-1").strip()}

    roles_url = f"{base}/meta-data/iam/security-credentials/"
    roles = await send(session, "GET", roles_url, policy=policy, headers=headers)
    role = roles.body.decode("utf-8", "replace").strip().partition("\n")[0]
    if roles.status != 200 or not role:
        raise StoreConfigError("no AWS credentials found: the instance has no role")
    url = roles_url + quote(role, safe="")
    return _from_json(await send(session, "GET", url, policy=policy, headers=headers), what)


def _from_json(reply: Reply, what: str) -> Credentials:
    if reply.status != 200:
        raise error_for(what, reply.status, reply.body)
    try:
        values = json.loads(reply.body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise StorageError(f"{what}: the answer is not a JSON object")
    return _credentials({key: value for key, value in values.items() if isinstance(value, str)}, what)


def _credentials(values: Mapping[str, str], what: str) -> Credentials:
    key_id, secret = values.get("AccessKeyId"), values.get("SecretAccessKey")
    if not key_id or not secret:
        raise StorageError(f"{what}: the answer holds none")
    expiration = values.get("Expiration")
    try:
        expires_at = datetime.fromisoformat(expiration) if expiration else None
    except ValueError:
        expires_at = None
    if expiration and (expires_at is None or expires_at.tzinfo is None):
        raise StorageError(f"{what}: the answer's time of expiry cannot be read")
    return Credentials(
        access_key_id=key_id,
        secret_access_key=secret,
        session_token=values.get("Token") or None,
        expires_at=expires_at,
    )


async def _read_token(path: Path) -> str:
    try:
        text = await in_thread(path.read_text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreConfigError(f"cannot read the token file {path.name}") from error
    return text.strip()
