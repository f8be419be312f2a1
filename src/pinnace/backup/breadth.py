"""Decides whether named namespaces are listed one by one, or the whole cluster at once. (docs/adr/107)

Most kinds have few objects, and most lists of one namespace are empty: 40 namespaces and 50 kinds are 2,000
requests, most of them for nothing. One list of all namespaces has objects that nobody asked for, which are
dropped as they come.
"""

from typing import Final

from pinnace.archive.runlog import RunLog
from pinnace.backup.cluster import ClusterReader
from pinnace.backup.plan import PlannedResource
from pinnace.kube.errors import KubeError

OBJECTS_A_LIST: Final = 100
"""A list costs the server and this process as much as so many more objects in one that is read anyway."""
FEW: Final = 4
"""So many namespaces are listed one by one in any case: asking would cost as much."""


def is_cheaper(total: int | None, namespaces: int) -> bool:
    """Whether one list of all namespaces costs less than one for each of these. Pure.

    Args:
        total: how many objects of the kind the cluster has; None if it is not known.
    """
    return total is not None and total <= OBJECTS_A_LIST * namespaces


async def is_wide(client: ClusterReader, planned: PlannedResource, log: RunLog, *, is_confined: bool) -> bool:
    """Whether the objects of these namespaces are taken from one list of all.

    A user who may not list the whole cluster gets the lists of the namespaces.

    Args:
        is_confined: whether nothing outside of the namespaces may be read.
    """
    if is_confined or len(planned.namespaces) <= FEW:
        return False
    try:
        total = await client.count(planned.resource)
    except KubeError as error:
        log.debug(
            "Listing namespace by namespace", resource=planned.resource.group_resource, error=str(error)
        )
        return False
    return is_cheaper(total, len(planned.namespaces))
