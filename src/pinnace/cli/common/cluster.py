"""Says on stderr which cluster a command works on, before it does: the wrong context is the common mistake.

(docs/adr/104)
"""

from typing import TYPE_CHECKING

from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.cli.guard import complain
from pinnace.kube.identity import read_identity, title_of

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient


def say_cluster(client: "KubeClient", doing: str) -> None:
    """Print the action and its cluster: `Restoring into cluster https://... (context prod).`"""
    complain(f"{doing} {title_of(client)}.")


async def say_source(client: "KubeClient", backup: JSONObject) -> None:
    """Print that a backup was made in another cluster than the one that it is restored into."""
    if source := await foreign_source(client, backup):
        name = text(backup, "metadata", "name")
        complain(f"NOTE: backup {name} was made in another cluster, {source}; this is {title_of(client)}.")


async def foreign_source(client: "KubeClient", backup: JSONObject) -> str:
    """The cluster that a backup was made in; empty if it is this one, or if that is not known."""
    notes = (backup.get("metadata") or {}).get("annotations")
    uid = text(notes, labels.SOURCE_CLUSTER_UID)
    own = (await read_identity(client)).uid
    if not uid or not own or uid == own:
        return ""
    address, version = (
        text(notes, labels.SOURCE_CLUSTER_ADDRESS),
        text(notes, labels.SOURCE_CLUSTER_GIT_VERSION),
    )
    named = address or f"whose namespace kube-system has the uid {uid}"
    return f"{named} (Kubernetes {version})" if version else named


async def with_source(client: "KubeClient", backup: JSONObject) -> JSONObject:
    """The Backup to be sent, with the cluster's address, which a server in a pod does not know."""
    identity = await read_identity(client)
    if not identity.uid or not identity.address:
        return backup
    notes = (backup["metadata"].get("annotations") or {}) | {
        labels.SOURCE_CLUSTER_UID: identity.uid,
        labels.SOURCE_CLUSTER_ADDRESS: identity.address,
    }
    return {**backup, "metadata": {**backup["metadata"], "annotations": notes}}


async def described(client: "KubeClient") -> JSONObject:
    """The cluster as data of a dry run."""
    identity = await read_identity(client)
    return {"server": client.server, "context": client.context, "uid": identity.uid}
