"""When a restored CustomResourceDefinition can be used. (docs/spec: RST 18)"""

from typing import Any, Final

from pinnace.aio.timing import Timer, poll
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import APIResource
from pinnace.restore.ports import Cluster

READY_TIMEOUT_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 0.05
"""Servers establish a definition within a few tens of milliseconds; asking only every second would make every
restore of a custom resource a second longer."""

_NEEDED_CONDITIONS: Final = ("Established", "NamesAccepted")


def is_ready(definition: dict[str, Any]) -> bool:
    """Whether the server has accepted the names and serves the kind.

    Raises:
        ValueError: the conditions are not what they should be.
    """
    conditions = definition.get("status", {}).get("conditions")
    if conditions is None:
        return False
    if not isinstance(conditions, list) or not all(isinstance(one, dict) for one in conditions):
        raise ValueError(".status.conditions is not a list of conditions")
    holding = {one.get("type") for one in conditions if one.get("status") == "True"}
    return holding.issuperset(_NEEDED_CONDITIONS)


async def wait_until_ready(client: Cluster, resource: APIResource, name: str, timer: Timer) -> str | None:
    """Wait for a definition that was just created.

    Returns:
        None when it can be used, otherwise the error for the cluster part of the results.
    """

    async def ready() -> bool:
        return is_ready(await client.get(resource, name))

    try:
        if await poll(
            ready,
            timer=timer,
            timeout_seconds=READY_TIMEOUT_SECONDS,
            first_pause_seconds=_FIRST_PAUSE_SECONDS,
        ):
            return None
        problem = "timed out waiting for the condition"
    except (KubeError, ValueError) as error:
        problem = str(error)
    return f"error verifying custom resource definition is ready to use: {problem}"
