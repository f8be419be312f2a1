"""Requests to clouds that speak JSON: Google's compute service and Azure's resource manager."""

import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pinnace.storage.errors import StorageError
from pinnace.storage.json_http import json_error, json_object
from pinnace.storage.s3_http import RetryPolicy, new_session, send

JSONObject = dict[str, Any]


class NotFoundError(StorageError):
    """What was asked for is not there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered: an object, maybe empty, and the headers."""

    body: JSONObject
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JSONService:
    """A service that is authorized by tokens."""

    token: Callable[[], Awaitable[str]] = field(repr=False)
    policy: RetryPolicy

    async def call(self, method: str, url: str, what: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Send a request that can be sent again without harm, and do so after transient faults.

        Args:
            what: what cannot be done if it fails, for the error.

        Raises:
            NotFoundError: status 404.
            StorageError: another refusal, or no answer.
        """

        async def headers() -> Mapping[str, str]:
            return {"authorization": f"Bearer {await self.token()}", "content-type": "application/json"}

        data = json.dumps(body).encode() if body is not None else None
        async with new_session(ssl.create_default_context()) as session:
            reply = await send(session, method, url, policy=self.policy, headers=headers, data=data)
        if reply.status == 404:
            raise NotFoundError(str(json_error(what, reply.status, reply.body)))
        if not 200 <= reply.status < 300:
            raise json_error(what, reply.status, reply.body)
        return Answer(json_object(reply.body, what) if reply.body.strip() else {}, reply.headers)
