"""Requests to EC2 by its query interface, signed like those to S3."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import urlencode
from xml.etree.ElementTree import Element

from pinnace.aio.clock import Clock
from pinnace.clouds.aws.credentials import CredentialSource
from pinnace.clouds.aws.signing import Signer, signed_headers
from pinnace.storage.errors import StorageError
from pinnace.store_access.requests import (
    Request,
    RequestPolicy,
    child_text,
    code_and_message,
    error_for,
    local_name,
    new_session,
    other_root,
    parse_xml,
    send_request,
    tls_context,
)

_VERSION = "2016-11-15"


class EC2Error(StorageError):
    """EC2 refused the request; `code` is its error code."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class EC2:
    """EC2 in one region.

    Args:
        endpoint: empty is AWS's own.
    """

    def __init__(
        self,
        region: str,
        credentials: CredentialSource,
        *,
        endpoint: str,
        policy: RequestPolicy,
        clock: Clock,
    ) -> None:
        suffix = ".cn" if region.startswith("cn-") else ""
        self._url = f"{endpoint.rstrip('/') or f'https://ec2.{region}.amazonaws.com{suffix}'}/"
        self._region = region
        self._credentials = credentials
        self._policy = policy
        self._clock = clock

    async def call(
        self, action: str, params: Mapping[str, str], what: str, *, policy: RequestPolicy | None = None
    ) -> Element:
        """The answer to an action; a document of anything else is refused. (docs/adr/012)

        Args:
            what: what cannot be done if it fails, for the error.
            policy: of an action that must not be tried again blindly.

        Raises:
            EC2Error: a refusal.
            StoreUnavailable: no answer, or EC2 failed by itself.
        """
        body = urlencode({"Action": action, "Version": _VERSION, **params}).encode()

        async def headers() -> Mapping[str, str]:
            return signed_headers(
                "POST",
                self._url,
                Signer(region=self._region, credentials=await self._credentials.get(), service="ec2"),
                now=self._clock.now(),
                body_hash=hashlib.sha256(body).hexdigest(),
                headers={"content-type": "application/x-www-form-urlencoded; charset=utf-8"},
            )

        async with new_session(tls_context()) as session:
            request = Request(
                method="POST",
                url=self._url,
                headers=headers,
                data=body,
                complaint=partial(other_root, name=f"{action}Response"),
                what=what,
            )
            reply = await send_request(session, request, policy=policy or self._policy)
        if reply.status == 200:
            return parse_xml(reply.body, what)
        error = error_for(what, reply.status, reply.body)
        code = code_and_message(reply.body)[0]
        raise EC2Error(str(error), code) if type(error) is StorageError else error


def items(root: Element, list_name: str) -> list[Element]:
    """The items of a list in an answer."""
    return [item for element in root if local_name(element) == list_name for item in element]


def tags_of(item: Element) -> dict[str, str]:
    """The tags of a volume or snapshot, without those that only AWS itself may set."""
    found = {child_text(tag, "key"): child_text(tag, "value") for tag in items(item, "tagSet")}
    return {key: value for key, value in found.items() if not key.startswith("aws:")}


def numbered(name: str, values: Sequence[str]) -> dict[str, str]:
    """A list as parameters."""
    return {f"{name}.{number}": value for number, value in enumerate(values, start=1)}


def tag_specification(resource: str, tags: Mapping[str, str]) -> dict[str, str]:
    """The tags of a new resource, as parameters."""
    if not tags:
        return {}
    prefix = "TagSpecification.1"
    params = {f"{prefix}.ResourceType": resource}
    for number, (key, value) in enumerate(sorted(tags.items()), start=1):
        params |= {f"{prefix}.Tag.{number}.Key": key, f"{prefix}.Tag.{number}.Value": value}
    return params
