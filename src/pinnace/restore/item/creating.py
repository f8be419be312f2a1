"""Creating an object so that an answer that never came costs nothing.

The client does not repeat a create whose outcome is unknown: in general that could act twice. Here it cannot,
for every object has a name: the second attempt meets what the first one made. A restore of thousands of
objects sees such failures (a balancer that drops a connection, an etcd that changes its leader), and one of
them would cost an object, or at a namespace everything in it.
"""

from collections.abc import Callable
from typing import Final

import orjson

from pinnace.aio.timing import Timer
from pinnace.api.objects import JSONObject
from pinnace.kube.errors import AlreadyExists, ConnectionFailed, KubeError, NotSent, NotTrusted, ServerFault
from pinnace.kube.resources import APIResource
from pinnace.restore.ports import Cluster

ATTEMPTS: Final = 5
FIRST_PAUSE_SECONDS: Final = 0.2
"""Doubled for each further attempt: as patient as the client is with reads."""
PATIENCE_SECONDS: Final = 45.0
"""After this time no further attempt is begun: of a server that is silent, two deadlines are enough."""

_PASSING_FAULTS: Final = frozenset({500, 502, 503, 504})


def is_unsettled(error: KubeError) -> bool:
    """Whether a write may have been done although it failed, and may succeed if it is tried again.

    What never reached the server is not among it: the client has tried that again already.
    """
    if isinstance(error, ServerFault):
        return error.code in _PASSING_FAULTS
    return isinstance(error, ConnectionFailed) and not isinstance(error, NotSent | NotTrusted)


class Creator:
    """Creates objects in one cluster."""

    def __init__(self, client: Cluster, timer: Timer) -> None:
        self._client = client
        self._timer = timer

    async def create(
        self,
        resource: APIResource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        is_ours: Callable[[JSONObject], bool],
    ) -> bytes:
        """Create an object, again while its fate is open.

        Args:
            name: of the object in `body`.
            is_ours: asked about an object that is there after an attempt without an answer: did that attempt
                make it?

        Returns:
            The object as the API server made it, undecoded.

        Raises:
            AlreadyExists: somebody else made it.
            KubeError: it was refused, or the last attempt failed too.
        """
        give_up_at = self._timer.monotonic() + PATIENCE_SECONDS
        unsettled = False
        pause_seconds = FIRST_PAUSE_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._client.create_bytes(resource, body, namespace)
            except AlreadyExists:
                found = await self._client.get(resource, name, namespace) if unsettled else None
                if found is None or not is_ours(found):
                    raise
                return orjson.dumps(found)
            except KubeError as error:
                is_last = attempt == ATTEMPTS or self._timer.monotonic() >= give_up_at
                if is_last or not is_unsettled(error):
                    raise
                unsettled = True
            await self._timer.sleep(pause_seconds)
            pause_seconds *= 2
        raise AssertionError("the last attempt returns or raises")
