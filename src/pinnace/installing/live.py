"""Reads the workloads that `install` has sent or left as they are, and says what keeps them from running."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pinnace.api.objects import JSONObject
from pinnace.installing.outcomes import title
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import DAEMON_SETS, DEPLOYMENTS

_WORKLOADS = {resource.kind: resource for resource in (DEPLOYMENTS, DAEMON_SETS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWorkloads:
    """The workloads as they are in the cluster.

    Attributes:
        pairs: each wanted workload, and the one that is there.
        unread: those that could not be read, each with the reason.
    """

    pairs: list[tuple[JSONObject, JSONObject]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def stopped(self) -> list[JSONObject]:
        """The Deployments without pods: `install` leaves the number of replicas as it is."""
        return [live for _, live in self.pairs if live["spec"].get("replicas") == 0]

    def foreign(self) -> list[str]:
        """The workloads that run other images than the wanted ones, such as those of a Velero server."""
        return [
            f"{title(wanted)} with {', '.join(others)}"
            for wanted, live in self.pairs
            if (others := sorted(_images(live) - _images(wanted)))
        ]


async def read_live(client: KubeClient, wanted: Sequence[JSONObject]) -> LiveWorkloads:
    """Read the workloads among the wanted objects; an error is part of the result."""
    found = LiveWorkloads()
    for obj in wanted:
        if obj["kind"] not in _WORKLOADS:
            continue
        metadata = obj["metadata"]
        try:
            live = await client.get(_WORKLOADS[obj["kind"]], metadata["name"], metadata["namespace"])
        except KubeError as error:
            found.unread.append(f"{title(obj)}: {error}")
        else:
            found.pairs.append((obj, {"kind": obj["kind"], **live}))
    return found


def _images(workload: JSONObject) -> set[str]:
    containers = workload["spec"]["template"]["spec"]["containers"]
    return {str(one.get("image") or "no image") for one in containers}
