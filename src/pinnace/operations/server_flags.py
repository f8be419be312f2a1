"""The flags of the server that decide what a backup or a restore does, for dry runs by a command."""

from typing import Final

from pinnace.api.objects import listed, objects
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.reading import ObjectReader
from pinnace.kube.resources import DEPLOYMENTS

VOLUME_POLICIES_FLAG: Final = "--global-backup-volume-policies-configmap"
MODIFIERS_FLAG: Final = "--default-resource-modifier-configmap"
_DEPLOYMENT: Final = "velero"


async def flag_of_server(client: ObjectReader, namespace: str, flag: str) -> str:
    """The value of a flag in the Deployment of the server; empty if it has none, or cannot be read.

    Raises:
        KubeError: the cluster could not be asked.
    """
    try:
        deployment = await client.get(DEPLOYMENTS, _DEPLOYMENT, namespace)
    except (NotFound, Forbidden):
        return ""
    containers = objects(deployment, "spec", "template", "spec", "containers")
    words = [str(word) for each in containers for word in (*listed(each, "command"), *listed(each, "args"))]
    for position, word in enumerate(words):
        if word == flag:
            return words[position + 1] if position + 1 < len(words) else ""
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return ""
