"""Removes the finalizers that keep objects from being deleted after an uninstall. (docs/spec: BEY 5.8)

Servers of later versions put finalizers on Restores and others. Without a server no controller removes them,
and the namespace and the definitions would stay Terminating.
"""

from typing import TYPE_CHECKING

from pinnace.api import GROUP, TENANT_GROUP
from pinnace.api.objects import JSONObject
from pinnace.kube.resources import APIResource

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient


async def release_objects(client: "KubeClient", resource: APIResource, namespace: str | None = None) -> None:
    """Remove the finalizers of Velero and Pinnace from the objects of a kind; others stay.

    Args:
        namespace: the namespace of the objects; None for all.

    Raises:
        KubeError: they cannot be listed or changed.
    """
    for obj in await client.list_all(resource, namespace):
        metadata = obj["metadata"]
        found = metadata.get("finalizers") or []
        kept = [finalizer for finalizer in found if not _is_ours(finalizer)]
        if kept != found:
            patch = {"metadata": {"finalizers": kept, "resourceVersion": metadata["resourceVersion"]}}
            await client.patch(resource, metadata["name"], patch, metadata.get("namespace"))


def defined_by(definition: JSONObject) -> APIResource | None:
    """The resource that a definition defines; None if it is not served."""
    spec = definition["spec"]
    served = [version["name"] for version in spec.get("versions") or [] if version.get("served")]
    if not served:
        return None
    return APIResource(
        group=spec["group"],
        version=served[0],
        name=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )


def _is_ours(finalizer: str) -> bool:
    """Whether a finalizer is Velero's, as `velero.io/x` and `restores.velero.io/x`, or self-service's."""
    domain = finalizer.partition("/")[0]
    return any(domain == group or domain.endswith(f".{group}") for group in (GROUP, TENANT_GROUP))


def held_by(obj: JSONObject) -> str:
    """Why a namespace or definition still exists, by its conditions."""
    name = f"{obj.get('kind', 'object')} {obj['metadata']['name']}"
    reasons = [
        condition.get("message") or condition.get("reason") or ""
        for condition in (obj.get("status") or {}).get("conditions") or []
        if condition.get("status") == "True" and condition.get("type") in _REASONS
    ]
    return f"{name}: {' '.join(reason for reason in reasons if reason) or 'it does not say why'}"


_REASONS = frozenset(
    {
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
        "NamespaceDeletionContentFailure",
        "NamespaceDeletionDiscoveryFailure",
        "Terminating",
    }
)
"""The conditions that say what holds an object back."""
