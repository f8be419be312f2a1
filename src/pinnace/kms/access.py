"""The rights that requests to key management services are made with, and how these are sent."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.kms.errors import InvalidKMSKey, KMSRefused, KMSUnavailable
from pinnace.kms.uris import AWS, AZURE, GOOGLE, KMSKey
from pinnace.store_access.addresses import Addresses
from pinnace.store_access.answers import status_text
from pinnace.store_access.errors import StorageError, StoreUnavailable
from pinnace.store_access.json import json_object
from pinnace.store_access.requests import (
    RETRIED_STATUSES,
    Reply,
    Request,
    RequestPolicy,
    new_session,
    send_request,
    tls_context,
    web_page,
)

POLICY: Final = RequestPolicy(
    attempts=3, base_seconds=0.5, request_seconds=10.0, upload_seconds=10.0, silence_seconds=10.0
)
_CLOUDS: Final = {"aws": AWS, "gcp": GOOGLE, "azure": AZURE}


class KMSAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The rights to keys, and the limits of requests.

    Attributes:
        environ: where credentials are looked for, and the address and the token of Vault.
        cloud: the provider of a location without its domain: `aws`, `gcp`, `azure`.
        credentials_file: the location's own credentials; keys of its cloud are used with them.
        profile: in the credentials file of AWS; empty for the default.
        is_tenants: whether the location is a tenant's: its own credentials are the only ones.
        addresses: where connections may go; None for any.
        endpoints: URLs of services in place of the cloud's own, by the scheme of their keys.
        deadline_seconds: how long wrapping or unwrapping one key may take, tokens and tries included.
    """

    environ: Mapping[str, str] = msgspec.field(default_factory=lambda: os.environ)
    cloud: str = ""
    credentials_file: Path | None = None
    profile: str = ""
    is_tenants: bool = False
    addresses: Addresses | None = None
    endpoints: Mapping[str, str] = msgspec.field(default_factory=dict)
    policy: RequestPolicy = POLICY
    deadline_seconds: float = 30.0
    clock: Clock = SYSTEM_CLOCK

    def file_for(self, key: KMSKey) -> Path | None:
        """The credentials file that a key is used with; None for the credentials of the process.

        Raises:
            InvalidKMSKey: the key is of another service than the credentials of a tenant.
        """
        is_own = _CLOUDS.get(self.cloud) == key.service
        if self.is_tenants and not (is_own and self.credentials_file is not None):
            raise InvalidKMSKey(
                f"{key.uri}: a tenant's location uses keys of its own cloud only, with its own credentials"
            )
        return self.credentials_file if is_own else None


class Refusals(msgspec.Struct, frozen=True):
    """How a service says no.

    Attributes:
        code_of: code and message of an answer; empty where it has none.
        remedies: what to do, by code.
        passing: codes of faults that pass, whatever the status.
    """

    code_of: Callable[[bytes], tuple[str, str]]
    remedies: Mapping[str, str]
    passing: frozenset[str] = frozenset()


Headers = Callable[[], Awaitable[Mapping[str, str]]]


async def call(
    access: KMSAccess,
    request: Request,
    refusals: Refusals,
    *,
    tls: str = "",
) -> dict[str, object]:
    """Send a request that changes nothing, and return the object that it is answered with.

    Args:
        tls: certificates to trust in place of the system's, PEM.

    Raises:
        KMSRefused, KMSUnavailable
    """
    request = replace(request, complaint=_no_object)
    async with new_session(tls_context(tls), addresses=access.addresses) as session:
        return await _tried(access, session, request, refusals)


async def _tried(
    access: KMSAccess, session: aiohttp.ClientSession, request: Request, refusals: Refusals
) -> dict[str, object]:
    for tries in range(1, access.policy.attempts + 1):
        reply = await send_request(session, request, policy=access.policy)
        if reply.status < 300:
            return json_object(reply.body, request.what)
        code, _ = refusals.code_of(reply.body)
        if code not in refusals.passing or tries == access.policy.attempts:
            break
        await access.policy.wait(tries)
    raise _refused(request.what, reply, refusals)


def _no_object(reply: Reply) -> str:
    """The complaint about an answer of success that is no JSON object, as that of a login page."""
    try:
        json_object(reply.body, "")
    except StorageError:
        return web_page(reply) or "it is not a JSON object"
    return ""


def _refused(what: str, reply: Reply, refusals: Refusals) -> KMSRefused | KMSUnavailable:
    code, message = refusals.code_of(reply.body)
    text = f"{what}: {message or status_text(reply.status)}{f' ({code})' if code else ''}"
    if reply.status in RETRIED_STATUSES or code in refusals.passing:
        return KMSUnavailable(text)
    remedy = refusals.remedies.get(code) or refusals.remedies.get(str(reply.status))
    return KMSRefused(f"{text}: {remedy}" if remedy else text)


async def within_deadline(access: KMSAccess, what: str, work: Awaitable[bytes]) -> bytes:
    """The result of the work. Raises KMSUnavailable if it takes too long, or the service is not there."""
    try:
        async with asyncio.timeout(access.deadline_seconds):
            return await work
    except TimeoutError as error:
        raise KMSUnavailable(f"{what}: no answer within {access.deadline_seconds:g} seconds") from error
    except StoreUnavailable as error:
        text = str(error)
        raise KMSUnavailable(text if text.startswith(what) else f"{what}: {text}") from error
