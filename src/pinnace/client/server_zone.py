"""The time zone of a server's schedules, as its Deployment has it."""

from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Final

import msgspec

from pinnace.api.objects import JSONObject, objects, text
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import DEPLOYMENTS
from pinnace.runtime.zone import local_zone

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient

DEPLOYMENT: Final = "velero"
"""The name of the server's Deployment."""


class ServerZone(msgspec.Struct, frozen=True):
    """The zone of schedules that name none.

    Attributes:
        doubt: why it is not known, and taken for UTC; empty if it is known.
    """

    zone: tzinfo
    doubt: str = ""


def zone_of_deployment(deployment: JSONObject | None) -> tzinfo:
    """The zone of a server: UTC, as in the image, unless its Deployment sets TZ."""
    containers = objects(deployment, "spec", "template", "spec", "containers")
    given = [each for container in containers[:1] for each in objects(container, "env")]
    name = next((text(each, "value") for each in given if each.get("name") == "TZ"), "")
    return local_zone({"TZ": name})


async def read_server_zone(client: "KubeClient", namespace: str) -> ServerZone:
    """The zone of the server in a namespace; one outside of the cluster does not say its zone."""
    try:
        return ServerZone(zone_of_deployment(await client.get(DEPLOYMENTS, DEPLOYMENT, namespace)))
    except NotFound:
        return ServerZone(UTC, f"namespace {namespace} has no Deployment {DEPLOYMENT}")
    except KubeError as error:
        return ServerZone(UTC, str(error))
