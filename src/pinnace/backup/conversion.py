"""The other versions in which a kind can be listed while its conversion webhook does not answer.

The API server stores objects in one version and converts them to the one that is asked for. If the server of
a conversion webhook is gone, lists work only in the version in which the objects are stored.
(docs/spec: BKP 5.3)
"""

from pinnace.api.objects import mapping, objects, text
from pinnace.backup.cluster import ClusterReader
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, ServerFault
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, KUBERNETES_GROUPS, APIResource


def may_be_custom(group_resource: str) -> bool:
    """Whether a kind may have a definition: only in groups with a dot, and never in Kubernetes' own.

    This saves requests, and a user who may not read definitions an error for each built-in resource.
    """
    group = group_resource.partition(".")[2]
    return "." in group and group not in KUBERNETES_GROUPS


async def other_versions(
    client: ClusterReader, discovery: Discovery, resource: APIResource, error: KubeError
) -> list[APIResource]:
    """The kind in the other served versions, first the one in which new objects are stored.

    Empty if the kind has no conversion webhook, or each of its versions is in the backup anyway.

    Args:
        error: of the list in the version of `resource`.
    """
    name = resource.group_resource
    others = [
        other
        for version in discovery.group_versions(resource.group)
        if version != resource.version and (other := discovery.served(name, version)) is not None
    ]
    if not isinstance(error, ServerFault) or not others or not may_be_custom(name):
        return []
    if not set(discovery.resources).isdisjoint(others):
        return []
    try:
        definition = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except KubeError:
        return []
    if text(mapping(definition, "spec", "conversion"), "strategy") != "Webhook":
        return []
    stored = {text(each, "name") for each in objects(definition, "spec", "versions") if each.get("storage")}
    return sorted(others, key=lambda other: other.version not in stored)
