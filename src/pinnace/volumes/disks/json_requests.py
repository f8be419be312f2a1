"""Requests to the JSON interfaces of clouds: Google's compute service and Azure's resource manager."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pinnace.api.objects import JSONObject
from pinnace.storage.errors import StorageError
from pinnace.store_access.json import error_texts, json_error, json_object
from pinnace.store_access.requests import Reply, RequestPolicy, new_session, send, tls_context


class RefusalError(StorageError):
    """The service refused the request; `code` is its error code, empty if it gave none."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class NotFoundError(RefusalError):
    """The resource does not exist."""


class ForbiddenError(RefusalError):
    """The credentials do not allow it."""


_TOO_FAST: Final = frozenset({"rateLimitExceeded", "userRateLimitExceeded"})
_REFUSALS: Final[Mapping[int, type[RefusalError]]] = {403: ForbiddenError, 404: NotFoundError}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of a service: an object, which may be empty, and headers, whose names have any case."""

    status: int
    body: JSONObject
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JSONService:
    """A service that is authorized by tokens."""

    token: Callable[[], Awaitable[str]] = field(repr=False)
    policy: RequestPolicy

    async def call(self, method: str, url: str, what: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Send a request that can be sent again without harm, and do so after transient faults.

        Args:
            what: what cannot be done if it fails, for the error.

        Raises:
            NotFoundError, ForbiddenError: status 404 and 403.
            StorageError: another refusal, or no answer.
        """

        async def headers() -> Mapping[str, str]:
            return {"authorization": f"Bearer {await self.token()}", "content-type": "application/json"}

        data = json.dumps(body).encode() if body is not None else None
        async with new_session(tls_context()) as session:
            for tries in range(1, self.policy.attempts + 1):
                reply = await send(session, method, url, policy=self.policy, headers=headers, data=data)
                if tries == self.policy.attempts or not _is_too_fast(reply):
                    break
                await self.policy.wait(tries)
        if not 200 <= reply.status < 300:
            error = json_error(what, reply.status, reply.body)
            if (refusal := _REFUSALS.get(reply.status)) is None:
                raise error
            raise refusal(str(error), error_texts(reply.body)[0])
        body = json_object(reply.body, what) if reply.body.strip() else {}
        return Answer(status=reply.status, body=body, headers=reply.headers)


def _is_too_fast(reply: Reply) -> bool:
    """Whether Google asks for fewer requests, which it does with the status of a missing right."""
    if reply.status != 403:
        return False
    try:
        errors = json.loads(reply.body)["error"]["errors"]
        return any(error["reason"] in _TOO_FAST for error in errors)
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
