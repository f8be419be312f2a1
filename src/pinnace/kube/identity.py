"""Which cluster this is: told to people before a run, and stored in backups. (docs/adr/104)"""

from typing import TYPE_CHECKING

import msgspec

from pinnace.api.objects import text
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import NAMESPACES

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient

_IDENTIFYING = "kube-system"
"""A namespace of every cluster, which is never made again: its uid tells clusters apart."""


class ClusterIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster.

    Attributes:
        uid: of the namespace kube-system; empty if it may not be read.
        address: of the API server as a kubeconfig has it; empty in a pod, where many clusters have the same.
    """

    uid: str = ""
    address: str = ""


async def read_identity(client: "KubeClient") -> ClusterIdentity:
    """The identity of the client's cluster. What cannot be read stays empty: no run fails for it."""
    address = client.server if client.context else ""
    try:
        found = await client.get(NAMESPACES, _IDENTIFYING)
    except KubeError:
        return ClusterIdentity(address=address)
    return ClusterIdentity(uid=text(found, "metadata", "uid"), address=address)


def title_of(client: "KubeClient") -> str:
    """The client's cluster as messages name it: `cluster https://10.0.0.1:6443 (context prod)`."""
    return (
        f"cluster {client.server} ({f'context {client.context}' if client.context else 'that of this pod'})"
    )
