"""The flags of the server that decide what a backup or a restore does, for dry runs by a command."""

from typing import Final

from pinnace.api.labels import SERVER_LABEL
from pinnace.api.objects import listed, mapping, objects
from pinnace.kube.reading import ObjectLister
from pinnace.kube.resources import DEPLOYMENTS

VOLUME_POLICIES_FLAG: Final = "--global-backup-volume-policies-configmap"
MODIFIERS_FLAG: Final = "--default-resource-modifier-configmap"


async def flag_of_server(client: ObjectLister, namespace: str, flag: str) -> str:
    """The value of a flag in the Deployment of the server, found by its label; empty if it has none.

    Raises:
        Forbidden: the caller may not read Deployments.
        KubeError: the cluster could not be asked.
    """
    servers = await client.list_all(DEPLOYMENTS, namespace, label_selector=SERVER_LABEL)
    pods = [mapping(server, "spec", "template") for server in servers]
    containers = [each for pod in pods for each in objects(pod, "spec", "containers")]
    words = [str(word) for each in containers for word in (*listed(each, "command"), *listed(each, "args"))]
    for position, word in enumerate(words):
        if word == flag:
            return words[position + 1] if position + 1 < len(words) else ""
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return ""
