"""The ServerStatusRequest controller: which version serves, with which actions. (docs/spec: CTL 14)"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pinnace.api.codec import DecodeError, decode
from pinnace.api.server_status import ServerStatusRequest
from pinnace.api.times import format_time
from pinnace.controllers.ports import Scope
from pinnace.controllers.writes import delete_if_there
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import velero
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

NAME: Final = "server-status-request"
REQUESTS: Final = velero("serverstatusrequests")
WORKERS: Final = 10

_KEPT: Final = timedelta(minutes=1)
_NEXT_LOOK_SECONDS: Final = 300.0


class ServerStatusReconciler:
    """Answers with version and plugins; deletes answered requests after a while.

    Args:
        version: of the server.
        plugins: (name, kind) of each registered action, in the order to show.
    """

    def __init__(self, scope: Scope, *, version: str, plugins: Sequence[tuple[str, str]]) -> None:
        self._scope = scope
        self._version = version
        self._plugins = [{"name": name, "kind": kind} for name, kind in plugins]

    async def reconcile(self, key: Key) -> Result:
        """One pass."""
        client = self._scope.client
        try:
            request = decode(ServerStatusRequest, await client.get(REQUESTS, key.name, key.namespace))
        except NotFound:
            return DONE
        except DecodeError as error:
            log.warning("Request cannot be read", error=error)
            return DONE
        now = self._scope.clock()
        match request.status.phase:
            case "" | "New":
                status = {
                    "phase": "Processed",
                    "processedTimestamp": format_time(now),
                    "serverVersion": self._version,
                    "plugins": self._plugins,
                }
                patch = {"status": status}
                await client.patch(REQUESTS, key.name, patch, key.namespace, subresource="status")
            case "Processed":
                processed = request.status.processed_timestamp or now - _KEPT
                if processed + _KEPT <= now:
                    await delete_if_there(client, REQUESTS, key)
                    return DONE
            case phase:
                raise ValueError(f"unexpected ServerStatusRequest phase {phase!r}")
        return Result.after(_NEXT_LOOK_SECONDS)
