"""The VolumeSnapshots of a backup in a cluster: waited for, collected at its end, deleted with it.

(docs/spec: SRV 18, BKP 11, CTL 6.5)
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.archive.runlog import RunLog
from pinnace.csi.snapshots import (
    DELETE_WITH_OBJECT,
    CSIError,
    SnapshotKinds,
    backup_selector,
    bound_content,
    handle_of,
)
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import APIResource

POLL_SECONDS: Final = 5.0
TIMEOUT_SECONDS: Final = 600.0
"""How long a snapshot may take until the storage system has given it a name. (docs/spec: SRV 18.2)"""

Sleep = Callable[[float], Awaitable[None]]


class CollectedObjects:
    """What the cluster has of one backup, for the files of the backup.

    Args:
        kinds: as the cluster serves them.
    """

    def __init__(self, client: KubeClient, kinds: SnapshotKinds, backup: str) -> None:
        self._client = client
        self._kinds = kinds
        self._selector = backup_selector(backup)

    async def collect(self, log: RunLog) -> tuple[Sequence[JSONObject], Sequence[JSONObject]]:
        """The snapshots and their contents; what cannot be listed counts as an error. (docs/spec: BKP 3.3)"""
        return await self._list(self._kinds.snapshots, log), await self._list(self._kinds.contents, log)

    async def _list(self, resource: APIResource, log: RunLog) -> Sequence[JSONObject]:
        try:
            return await self._client.list_all(resource, label_selector=self._selector)
        except KubeError as error:
            log.error("Error listing the CSI snapshots of the backup", error=error, resource=resource.name)
            return ()


async def wait_for_content(
    client: KubeClient,
    kinds: SnapshotKinds,
    snapshot: JSONObject,
    *,
    sleep: Sleep = asyncio.sleep,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> tuple[JSONObject, JSONObject]:
    """A snapshot and its content as they are once the storage system has named the snapshot.

    Whether the data is ready to be used is not waited for: a restore will.

    Raises:
        CSIError: it took too long, with the reason that the cluster gives.
        KubeError: one of them cannot be read.
    """
    namespace, name = snapshot["metadata"]["namespace"], snapshot["metadata"]["name"]
    reason = "it has no VolumeSnapshotContent yet: does a snapshot controller run in the cluster?"
    for tries_left in range(round(timeout_seconds / POLL_SECONDS), -1, -1):
        found = await client.get(kinds.snapshots, name, namespace)
        if content_name := bound_content(found):
            content = await client.get(kinds.contents, content_name)
            if handle_of(content):
                return found, content
            reason = _trouble(content) or f"VolumeSnapshotContent {content_name} has no snapshot handle yet"
        reason = _trouble(found) or reason
        if tries_left:
            await sleep(POLL_SECONDS)
    raise CSIError(
        f"VolumeSnapshot {namespace}/{name} was not made within {timeout_seconds / 60:g} minutes: {reason}"
    )


def _trouble(obj: JSONObject) -> str:
    return str(((obj.get("status") or {}).get("error") or {}).get("message") or "")


async def delete_objects(
    client: KubeClient, kinds: SnapshotKinds, backup: str
) -> tuple[list[str], list[JSONObject]]:
    """Delete a backup's snapshots and contents, and by that the storage system's snapshots.

    The storage system deletes them later, by itself. Doing it twice is harmless. (docs/spec: CTL 6.5)

    Returns:
        What went wrong, and the contents that there were.

    Raises:
        KubeError: they cannot be listed now.
    """
    selector, errors = backup_selector(backup), []
    snapshots = await client.list_all(kinds.snapshots, label_selector=selector)
    contents = await client.list_all(kinds.contents, label_selector=selector)
    for snapshot in snapshots:
        namespace, name = snapshot["metadata"]["namespace"], snapshot["metadata"]["name"]
        try:
            if bound := bound_content(snapshot):
                await _release(client, kinds, bound)
            await _delete(client, kinds.snapshots, name, namespace)
        except KubeError as error:
            errors.append(f"error deleting CSI VolumeSnapshot {namespace}/{name}: {error}")
    for content in contents:
        name = content["metadata"]["name"]
        try:
            await _release(client, kinds, name)
            await _delete(client, kinds.contents, name)
        except KubeError as error:
            errors.append(f"error deleting CSI VolumeSnapshotContent {name}: {error}")
    return errors, contents


async def _release(client: KubeClient, kinds: SnapshotKinds, content: str) -> None:
    """Let the snapshot go with its content; one that is gone already is no error."""
    try:
        await client.patch(kinds.contents, content, DELETE_WITH_OBJECT)
    except NotFound:
        return


async def _delete(client: KubeClient, resource: APIResource, name: str, namespace: str | None = None) -> None:
    try:
        await client.delete(resource, name, namespace)
    except NotFound:
        return
