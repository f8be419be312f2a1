"""Events of Kubernetes about objects of the server."""

from hashlib import sha256
from typing import Final

from pinnace.api.objects import JSONObject, text
from pinnace.api.values.times import format_time
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import PASSING_ERRORS, AlreadyExists, KubeError
from pinnace.kube.resources import EVENTS
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

_LONGEST_MESSAGE: Final = 1000


async def write_event(scope: Scope, about: JSONObject, *, reason: str, message: str, is_bad: bool) -> None:
    """Write an Event, or count one that says the same; a refusal is only logged.

    Args:
        about: the reference to the object, in the server's namespace, with its uid.

    Raises:
        KubeError: one of those that pass.
    """
    when, shown = format_time(scope.clock.now()), message[:_LONGEST_MESSAGE].strip()
    of_message = sha256(f"{text(about, 'uid')} {shown}".encode()).hexdigest()[:16]
    name = f"{text(about, 'name')[:200]}.{of_message}"
    body: JSONObject = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": scope.namespace},
        "involvedObject": about,
        "type": "Warning" if is_bad else "Normal",
        "reason": reason,
        "message": shown,
        "source": {"component": "pinnace"},
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }
    client = scope.client
    try:
        try:
            await client.create(EVENTS, body, scope.namespace)
        except AlreadyExists:
            seen = (await client.get(EVENTS, name, scope.namespace)).get("count")
            again = {"count": seen + 1 if isinstance(seen, int) else 2, "lastTimestamp": when}
            await client.patch(EVENTS, name, again, scope.namespace)
    except PASSING_ERRORS:
        raise
    except KubeError as error:
        log.warning("An Event could not be written", about=text(about, "name"), reason=reason, error=error)
