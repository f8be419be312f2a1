"""Counts the objects that a backup has not listed yet, so that its progress has a total. (docs/adr/062)

A list of one object says how many more there are. A backup asks for it only when it has run for three
seconds: a short one has ended by then, and to a long one these requests add about a hundredth. Only the
display depends on the numbers: what cannot be counted stays unknown.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from pinnace.archive.runlog import RunLog
from pinnace.backup.cluster import ClusterReader
from pinnace.backup.plan import PlannedResource
from pinnace.kube.errors import KubeError

COUNT_AFTER_SECONDS: Final = 3.0
REQUESTS: Final = 200
"""How many lists are counted at most; a backup of hundreds of namespaces has a list for each and resource."""
_AT_ONCE: Final = 4


def countable(resources: Sequence[PlannedResource]) -> list[PlannedResource]:
    """The first resources that are listed, as far as their lists are few enough."""
    chosen, requests = [], 0
    for planned in resources:
        requests += len(planned.namespaces)
        if requests > REQUESTS:
            break
        if planned.namespaces:
            chosen.append(planned)
    return chosen


async def count_resources(
    client: ClusterReader,
    resources: Sequence[PlannedResource],
    *,
    is_wanted: Callable[[PlannedResource], bool],
    counted: Callable[[PlannedResource, int], None],
    log: RunLog,
) -> None:
    """Count the objects of each resource.

    Args:
        is_wanted: asked before and after each request: whether the resource has not been listed meanwhile.
        counted: told of each resource whose objects the server counts.
    """
    waiting = iter(resources)

    async def work() -> None:
        for planned in waiting:
            number = 0
            for namespace in planned.namespaces:
                if not is_wanted(planned):
                    break
                try:
                    found = await client.count(planned.resource, namespace or None)
                except KubeError as error:
                    resource = planned.resource.group_resource
                    log.debug(
                        "Cannot count objects", resource=resource, namespace=namespace, error=str(error)
                    )
                    break
                if found is None:
                    break
                number += found
            else:
                if is_wanted(planned):
                    counted(planned, number)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
